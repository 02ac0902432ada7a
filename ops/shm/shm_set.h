#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/topology.h"
#include "ops/host/host_collective.h"
#include "ops/host/transfers.h"
#include "ops/shm/data_segment.h"

namespace hvd {

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
  std::uint64_t next_operation() const noexcept { return next_operation_; }
  // Empty until the set's lowest rank has made it.
  std::optional<Place> place() noexcept;
  // Nobody reads any more what this rank has shown early: see ShmOperation.
  void hide_early() noexcept;
  void ring(std::size_t rank) const noexcept { segment().ring(world_rank(rank)); }
  void ring_others() const noexcept;

  // As RankSet's, and whoever waits for it on this rank looks.
  void abort() noexcept;

 private:
  ShmSet(std::shared_ptr<ShmShared> shared, const std::shared_ptr<const ShmSet>& parent,
         std::uint32_t number, std::vector<Rank> members);

  const std::shared_ptr<ShmShared> shared_;
  std::optional<Place> place_;
  std::uint64_t next_operation_ = 0;
};

}  // namespace hvd
