#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/negotiate/messages/request.h"

namespace hvd::engine {

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

// Of a batch to which `divisor` ranks contribute.
Reduction reduction_of(const FusionKey& key, int divisor);

// Tensors in a fusion buffer begin at multiples of this many bytes: one cache line.
inline constexpr std::size_t kAlignment = 64;

constexpr std::size_t align_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Bytes of its tensors, each rounded up to a multiple of kAlignment.
std::size_t fused_bytes(const Request& request);

// One batch: `count` members from `first` on in the plan's list of members.
struct FusedGroup {
  FusionKey key;
  std::size_t bytes = 0;  // of its members
  std::size_t first = 0;
  std::size_t count = 0;
};

// Packs requests into groups of at most `limit_bytes`, one open group per key. A request larger
// than the limit gets a group of its own, so a limit of 0 turns fusion off. Pure: equal requests
// in equal order give equal plans.
class FusionPlan {
 public:
  // Begins another plan, in the storage of the last one.
  void begin(std::size_t limit_bytes);
  // `id` is the caller's: a slot number, a place in a queue.
  void add(std::uint32_t id, const FusionKey& key, std::size_t bytes);
  // All were added: the groups have their members.
  void finish();

  std::size_t size() const { return added_.size(); }
  // In the order in which they were opened.
  const std::vector<FusedGroup>& groups() const { return groups_; }
  // Their ids, in the order in which they were added.
  std::span<const std::uint32_t> members_of(const FusedGroup& group) const {
    return std::span(members_).subspan(group.first, group.count);
  }

 private:
  std::size_t limit_bytes_ = 0;
  std::vector<std::pair<std::uint32_t, std::size_t>> added_;  // ids and places in groups_
  std::vector<FusedGroup> groups_;
  std::vector<std::uint32_t> members_;
};

}  // namespace hvd::engine
