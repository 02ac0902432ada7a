#include "core/negotiate/fusion_plan.h"

namespace hvd {
namespace {

// Even items of no bytes share nothing when fusion is off. Arenas are made one by one.
bool fits(const FusedGroup& group, const FusionItem& item, std::size_t limit_bytes) {
  return limit_bytes > 0 && item.key.kind != CollectiveKind::kMakeArena &&
         group.bytes + item.bytes <= limit_bytes;
}

// The group that `key` still fills: the last one opened for it.
std::size_t open_group(const FusionPlan& plan, const FusionKey& key) {
  for (std::size_t g = plan.groups.size(); g-- > 0;) {
    if (plan.groups[g].key == key) return g;
  }
  return plan.groups.size();
}

}  // namespace

FusionKey fusion_key(const Request& request) {
  return {request.kind, request.dtype,    request.device,    request.set,  request.op,
          request.root, request.prescale, request.postscale, request.wire, arena_of(request)};
}

FusionItem fusion_item(std::uint32_t id, const Request& request) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < request.shapes.size(); ++i) bytes += align_up(request.bytes_of(i));
  return {id, fusion_key(request), bytes};
}

void plan_fusion(std::span<const FusionItem> items, std::size_t limit_bytes, FusionPlan& plan) {
  plan.groups.clear();
  plan.group_of.clear();
  for (const FusionItem& item : items) {
    std::size_t at = open_group(plan, item.key);
    if (at == plan.groups.size() || !fits(plan.groups[at], item, limit_bytes)) {
      at = plan.groups.size();
      plan.groups.push_back({item.key, 0, 0, 0});
    }
    plan.groups[at].bytes += item.bytes;
    ++plan.groups[at].count;
    plan.group_of.push_back(at);
  }

  std::size_t first = 0;
  for (FusedGroup& group : plan.groups) {
    group.first = first;
    first += group.count;
    group.count = 0;  // counted again while the members are placed
  }
  plan.members.resize(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    FusedGroup& group = plan.groups[plan.group_of[i]];
    plan.members[group.first + group.count++] = items[i].id;
  }
}

}  // namespace hvd
