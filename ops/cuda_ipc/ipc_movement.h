#pragma once

#include <vector>

#include "ops/cuda/copy.h"
#include "ops/cuda_ipc/ipc_work.h"
#include "ops/cuda_ipc/packed_sequence.h"

namespace hvd::engine {

// What operations have in common that show each rank a sequence: one for all, or one for each, for
// which a chunk is divided equally.
class IpcShown {
 public:
  // `for_each`: add() is called with ranks; else with 0 alone.
  IpcShown(const IpcPlace& place, const IpcLimits& limits, bool for_each);

  PackedSequence& to(Rank rank) { return sequences_[static_cast<std::size_t>(rank)]; }
  // Steps until all of it is shown.
  std::uint64_t steps() const;
  // Bytes of one sequence in a chunk.
  std::size_t part() const noexcept { return part_; }
  // Where in a chunk the sequence for `rank` stands.
  std::size_t place_for(Rank rank) const {
    return sequences_.size() == 1 ? 0 : static_cast<std::size_t>(rank) * part_;
  }
  void pack(std::uint64_t step, const IpcChunk& chunk) const;

 private:
  IpcPlace place_;
  std::size_t part_;
  std::vector<PackedSequence> sequences_;
};

// The copies between `bytes` bytes of a sequence from `begin` on and memory where they stand
// packed: into it, or out of it.
void pieces_in(const PackedSequence& sequence, std::size_t begin, std::size_t bytes,
               std::byte* packed, std::vector<CopyPiece>& pieces, std::size_t unit);
void pieces_out(const PackedSequence& sequence, std::size_t begin, std::size_t bytes,
                const std::byte* packed, std::vector<CopyPiece>& pieces, std::size_t unit);

}  // namespace hvd::engine
