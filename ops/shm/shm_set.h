#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/topology.h"
#include "ops/host/byte_sequence.h"
#include "ops/host/host_collective.h"
#include "ops/host/transfers.h"
#include "ops/shm/data_segment.h"

namespace hvd::engine {

// What the Collectives of one rank share.
struct ShmShared {
  ShmShared(std::unique_ptr<DataSegment> the_segment, ArenaFiles the_arenas);

  // Sets that this rank left before their lowest rank had given them a place.
  struct Departure {
    std::uint64_t key;
    std::vector<int> members;
  };
  void settle_departures() noexcept;

  std::unique_ptr<DataSegment> segment;
  ArenaFiles arenas;
  host::Transfers transfers;
  std::vector<Departure> departures;
};

// What the flags of a lane say of operation `number` before its first step, and by how many bits
// steps are counted below that: see ShmOperation.
inline constexpr int kStepBits = 28;
inline std::uint64_t flags_before(std::uint64_t number, const ShmLimits& limits) {
  return number / limits.lanes << kStepBits;
}
// What LaneProgress::early says of it, and of no earlier one.
inline std::uint64_t early_flag(std::uint64_t number, std::uint64_t submission) {
  return submission + number * 0x9e3779b97f4a7c15;
}

// The ranks of one Collective and its place in the segment.
class ShmSet : public host::RankSet {
 public:
  using Place = DataSegment::Place;

  // All ranks of the segment.
  explicit ShmSet(std::shared_ptr<ShmShared> shared);
  // `members`: ranks of the segment, ascending; this one is among them. Throws UnsupportedError
  // when there is no place for it.
  ShmSet(const std::shared_ptr<const ShmSet>& parent, std::uint32_t number,
         std::vector<Rank> members);
  ~ShmSet();

  ShmShared& shared() const noexcept { return *shared_; }
  const DataSegment& segment() const noexcept { return *shared_->segment; }

  // Operations are counted, on all ranks alike.
  std::uint64_t begin_operation() noexcept {
    shared_->settle_departures();
    return next_operation_++;
  }
  // A rank's part of a lane.
  struct Side {
    LaneProgress* progress;
    std::byte* chunks[2];
  };
  // By rank, the lane of that operation; empty until the set's lowest rank has made the set. Throws
  // UnsupportedError if there was no memory for it.
  std::span<const Side> lane_of(std::uint64_t operation);
  // Writes the one step of `submission`, in case that is the next operation, if its lane is free.
  void show_early(std::uint64_t submission, const host::ByteSequence& bytes);
  // No rank reads any more what this one has shown so.
  void hide_early() noexcept;
  void ring(std::size_t rank) const noexcept { segment().ring(world_rank(rank)); }
  void ring_others() const noexcept;

  // As RankSet's, and whoever waits for it on this rank looks.
  void abort() noexcept;

 private:
  ShmSet(std::shared_ptr<ShmShared> shared, const std::shared_ptr<const ShmSet>& parent,
         std::uint32_t number, std::vector<Rank> members);
  // Empty until the set's lowest rank has made it.
  std::optional<Place> place() noexcept;

  const std::shared_ptr<ShmShared> shared_;
  std::optional<Place> place_;
  std::vector<Side> lanes_;  // one after the other, once there is a place
  std::uint64_t next_operation_ = 0;
};

}  // namespace hvd::engine
