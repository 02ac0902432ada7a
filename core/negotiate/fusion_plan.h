#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/negotiate/messages/request.h"

namespace hvd {

// Requests with equal keys may share a batch.
struct FusionKey {
  CollectiveKind kind = CollectiveKind::kAllreduce;
  DType dtype = DType::kF32;
  DeviceKind device = DeviceKind::kCpu;
  ProcessSetId set = kWorldSet;
  ReduceOp op = ReduceOp::kSum;
  Rank root = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  WireFormat wire = WireFormat::kNone;
  ArenaNumber arena = 0;  // whose memory is reduced in place; 0 = packed

  friend bool operator==(const FusionKey&, const FusionKey&) = default;
};

FusionKey fusion_key(const Request& request);

// One request to place. `id` is the caller's: a slot number, a place in a queue.
struct FusionItem {
  std::uint32_t id = 0;
  FusionKey key;
  std::size_t bytes = 0;  // of its tensors, each rounded up to a multiple of kAlignment
};

FusionItem fusion_item(std::uint32_t id, const Request& request);

// One batch: `count` members from `first` on in FusionPlan::members.
struct FusedGroup {
  FusionKey key;
  std::size_t bytes = 0;  // of its members
  std::size_t first = 0;
  std::size_t count = 0;
};

struct FusionPlan {
  std::vector<FusedGroup> groups;      // in the order in which they were opened
  std::vector<std::uint32_t> members;  // their ids

  std::span<const std::uint32_t> members_of(const FusedGroup& group) const {
    return std::span(members).subspan(group.first, group.count);
  }

  std::vector<std::size_t> group_of;  // scratch, by item
};

// Tensors in a fusion buffer begin at multiples of this many bytes: one cache line.
inline constexpr std::size_t kAlignment = 64;

constexpr std::size_t align_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Packs `items` into groups of at most `limit_bytes`, one open group per key. An item larger than
// the limit gets a group of its own, so a limit of 0 turns fusion off. Pure: equal arguments give
// equal plans. Reuses the storage of `plan`.
void plan_fusion(std::span<const FusionItem> items, std::size_t limit_bytes, FusionPlan& plan);

}  // namespace hvd
