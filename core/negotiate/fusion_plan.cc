#include "core/negotiate/fusion_plan.h"

namespace hvd::engine {
namespace {

// Even requests of no bytes share nothing when fusion is off. Arenas are made one by one.
bool fits(const FusedGroup& group, std::size_t bytes, std::size_t limit_bytes) {
  return limit_bytes > 0 && group.key.kind != CollectiveKind::kMakeArena &&
         group.bytes + bytes <= limit_bytes;
}

// The group that `key` still fills: the last one opened for it.
std::size_t open_group(const std::vector<FusedGroup>& groups, const FusionKey& key) {
  for (std::size_t g = groups.size(); g-- > 0;) {
    if (groups[g].key == key) return g;
  }
  return groups.size();
}

}  // namespace

FusionKey fusion_key(const Request& request) {
  return {request.kind, request.dtype,    request.device,    request.set,  request.op,
          request.root, request.prescale, request.postscale, request.wire, arena_of(request)};
}

Reduction reduction_of(const FusionKey& key, int divisor) {
  if (key.op != ReduceOp::kAverage) return {key.op, key.prescale, key.postscale, key.wire};
  return {ReduceOp::kSum, key.prescale, key.postscale / divisor, key.wire};
}

std::size_t fused_bytes(const Request& request) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < request.shapes.size(); ++i) bytes += align_up(request.bytes_of(i));
  return bytes;
}

void FusionPlan::begin(std::size_t limit_bytes) {
  limit_bytes_ = limit_bytes;
  added_.clear();
  groups_.clear();
}

void FusionPlan::add(std::uint32_t id, const FusionKey& key, std::size_t bytes) {
  std::size_t at = open_group(groups_, key);
  if (at == groups_.size() || !fits(groups_[at], bytes, limit_bytes_)) {
    at = groups_.size();
    groups_.push_back({key, 0, 0, 0});
  }
  groups_[at].bytes += bytes;
  ++groups_[at].count;
  added_.emplace_back(id, at);
}

void FusionPlan::finish() {
  std::size_t first = 0;
  for (FusedGroup& group : groups_) {
    group.first = first;
    first += group.count;
    group.count = 0;  // counted again while the members are placed
  }
  members_.resize(added_.size());
  for (const auto& [id, at] : added_) {
    FusedGroup& group = groups_[at];
    members_[group.first + group.count++] = id;
  }
}

}  // namespace hvd::engine
