#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/topology.h"
#include "core/ports/doorbell.h"
#include "ops/shm/byte_ring.h"
#include "ops/shm/shared_memory.h"

namespace hvd::engine {

enum class RankState : std::uint32_t { kHere = 0, kLeft = 1, kFailed = 2 };

// What each rank of a host shows to the others.
struct alignas(64) RankSlot {
  DoorbellState bell;
  std::atomic<RankState> state{RankState::kHere};
  char why[240] = {};  // zero-terminated; written before `state` becomes kFailed
};

// The beginning of a host's segment: a slot for each of `ranks` local ranks, then a ring for each
// ordered pair of them.
class Mailboxes {
 public:
  static std::size_t bytes_needed(int ranks);
  // Lays the structures out in `memory` (bytes_needed(ranks) zeroed bytes), which is kept alive.
  // All zeroes is their initial state, so no rank has to construct them before others look.
  Mailboxes(std::shared_ptr<SharedMemory> memory, int ranks);

  int ranks() const noexcept { return ranks_; }
  RankSlot& slot(int local_rank) const noexcept;
  ByteRing ring(int from, int to) const noexcept;

 private:
  std::shared_ptr<SharedMemory> memory_;
  int ranks_;
  std::size_t ring_bytes_;
};

struct ShmLimits {
  // Operations of one set that move at a time; the next ones wait for them.
  std::size_t lanes = 2;
  // Bytes that a rank shows to the others at a time; twice as many in each lane, so that one is
  // filled while the other is read. A multiple of 4096: more would leave the caches, fewer would
  // wait for flags rather than for memory.
  std::size_t chunk_bytes = std::size_t{128} << 10;
  // All-reduces of up to this many bytes are reduced by every rank for itself, which saves a step;
  // of larger ones each rank reduces a range for all. Two ranks always reduce for themselves.
  std::size_t small_bytes = std::size_t{64} << 10;
  // Sets, besides that of all ranks, that exist at a time.
  std::size_t sets = 256;
};

// How far a rank is with the operation that has a lane: see ShmOperation. Written by that rank, on
// cache lines of its own (two, because they are fetched in pairs).
struct alignas(128) LaneProgress {
  std::atomic<std::uint64_t> written{0};
  std::atomic<std::uint64_t> reduced{0};
  std::atomic<std::uint64_t> read{0};
  std::atomic<std::uint64_t> early{0};  // what it has shown before the operation; 0: nothing
  // Operations of the rank that wait for others to have read: it is rung then.
  std::atomic<std::uint32_t> wait_for_reads{0};
};

// The memory through which the tensors of a host's ranks move: for each pair of ranks two rings for
// transfers, and for each set and rank progress and chunks. The places of sets are given out in the
// segment itself, because ranks make sets in different orders; memory for a place is reserved when
// it is given out, so that unused sets cost nothing.
class DataSegment {
 public:
  using Place = std::size_t;
  static constexpr Place kWorldPlace = 0;

  struct Needs {
    std::size_t bytes = 0;     // address space
    std::size_t reserved = 0;  // of them memory from the beginning
  };
  // With the mailboxes.
  static Needs needs(int ranks, const ShmLimits& limits);

  // Lies behind the mailboxes in `memory`: needs() bytes, zeroed, which is the initial state.
  DataSegment(std::shared_ptr<SharedMemory> memory, int ranks, int rank, const ShmLimits& limits);

  int ranks() const noexcept { return mailboxes_.ranks(); }
  int rank() const noexcept { return rank_; }
  const ShmLimits& limits() const noexcept { return limits_; }
  void ring(int rank) const noexcept { Doorbell(mailboxes_.slot(rank).bell).ring(); }

  LaneProgress& progress(Place place, int rank, std::size_t lane) const noexcept;
  std::byte* chunk(Place place, int rank, std::size_t lane, std::size_t which) const noexcept;

  // Of a set's lowest rank, once: gives the set `key` (not 0) a place. Throws UnsupportedError when
  // there are too many sets or no memory for one more; the set has a place without memory then, so
  // that its other members find out.
  Place give_place(std::uint64_t key, const std::vector<int>& members);
  // Where the set is; empty until its lowest rank has given it a place.
  std::optional<Place> find_place(std::uint64_t key) const noexcept;
  // Otherwise the place is only good for leaving it.
  bool has_memory(Place place) const noexcept { return place <= limits_.sets; }
  // Of each member, once. The place is free when the last one has left.
  void leave_place(Place place, const std::vector<int>& members) noexcept;

  // Of transfers.
  enum class RingOf { kNotes, kData };
  ByteRing ring_of(int from, int to, RingOf what) const noexcept;

 private:
  // Offsets and sizes in bytes: entries, the states of the rings, the rings, the places.
  struct Layout {
    Layout(int count, const ShmLimits& limits);

    std::size_t states, rings, places;
    std::size_t progress;   // of a rank in a place
    std::size_t rank_area;  // of a rank in a place: progress and chunks
    std::size_t place;
    std::size_t end;
  };
  struct Entry {
    std::atomic<std::uint64_t> key{0};
    std::atomic<std::uint64_t> left{0};  // members
  };

  Entry& entry(Place place) const noexcept;
  std::optional<Place> take_entry(Place first) noexcept;
  void reserve_place(Place place, const std::vector<int>& members);
  void refuse_place(std::uint64_t key, const std::vector<int>& members) noexcept;
  std::byte* rank_area(Place place, int rank) const noexcept;

  std::shared_ptr<SharedMemory> memory_;
  Mailboxes mailboxes_;
  int rank_;
  ShmLimits limits_;
  Layout layout_;
  std::byte* base_;  // where the layout begins
};

}  // namespace hvd::engine
