#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/negotiate/request.h"

namespace hvd {

// Requests with equal keys may share a batch.
struct FusionKey {
  CollectiveKind kind = CollectiveKind::kAllreduce;
  DType dtype = DType::kF32;
  DeviceKind device = DeviceKind::kCpu;
  ReduceOp op = ReduceOp::kSum;
  Rank root = 0;

  friend bool operator==(const FusionKey&, const FusionKey&) = default;
};

FusionKey fusion_key(const Request& request);

// One tensor to place. `id` is the caller's: a slot number, a place in a queue.
struct FusionItem {
  std::uint32_t id = 0;
  FusionKey key;
  std::size_t bytes = 0;
};

struct FusedMember {
  std::uint32_t id = 0;
  std::size_t offset = 0;  // bytes from the start of the fusion buffer
};

// One batch: `count` members from `first` on in FusionPlan::members.
struct FusedGroup {
  FusionKey key;
  std::size_t bytes = 0;  // buffer needed, alignment gaps included
  std::size_t first = 0;
  std::size_t count = 0;
};

struct FusionPlan {
  std::vector<FusedGroup> groups;  // in the order in which they were opened
  std::vector<FusedMember> members;

  std::span<const FusedMember> members_of(const FusedGroup& group) const {
    return std::span(members).subspan(group.first, group.count);
  }

  std::vector<std::size_t> group_of;  // scratch, by item
};

// Offsets in a fusion buffer are multiples of this many bytes: one cache line.
inline constexpr std::size_t kAlignment = 64;

// Packs `items` into groups of at most `limit_bytes`, one open group a key. An item larger than the
// limit gets a group of its own, so a limit of 0 turns fusion off. Pure: equal arguments give equal
// plans, and the members of one group alone give that group again. Reuses the storage of `plan`.
void plan_fusion(std::span<const FusionItem> items, std::size_t limit_bytes, FusionPlan& plan);

}  // namespace hvd
