#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "core/ports/doorbell.h"
#include "ops/shm/byte_ring.h"
#include "ops/shm/shared_memory.h"

namespace hvd {

enum class RankState : std::uint32_t { kHere = 0, kLeft = 1, kFailed = 2 };

// What each rank of a host shows to the others.
struct alignas(64) RankSlot {
  DoorbellState bell;
  std::atomic<RankState> state{RankState::kHere};
  char why[240] = {};  // zero-terminated; written before `state` becomes kFailed
};

// The layout of a host's segment: a slot for each of `ranks` local ranks, then a ring for each
// ordered pair of them.
class Mailboxes {
 public:
  static std::size_t bytes_needed(int ranks);
  // Lays the structures out in `memory` (bytes_needed(ranks) zeroed bytes), which is kept alive.
  // All zeroes is their initial state, so nobody has to construct them before others look.
  Mailboxes(std::shared_ptr<SharedMemory> memory, int ranks);

  int ranks() const noexcept { return ranks_; }
  RankSlot& slot(int local_rank) const noexcept;
  ByteRing ring(int from, int to) const noexcept;

 private:
  std::shared_ptr<SharedMemory> memory_;
  int ranks_;
  std::size_t ring_bytes_;
};

}  // namespace hvd
