#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/ports/collective.h"

namespace hvd::engine::host {

// Uninitialised memory of this process, aligned to 64 bytes.
Buffer allocate_buffer(std::size_t bytes);

// Drops the fences that are reached; true when none is left.
bool all_reached(std::vector<Fence>& fences);

// An arena of which this process reaches every rank's part, or its own alone, as that of rank 0.
struct MappedArena {
  std::vector<std::byte*> begin_of;                 // by rank
  std::vector<std::shared_ptr<const void>> memory;  // what keeps this process's access to it

  // Where a slice lies on a rank.
  std::byte* at(std::size_t rank, const Slice& slice) const {
    return begin_of[rank] + slice.place->offset;
  }
};

using MappedArenaPtr = std::shared_ptr<MappedArena>;

// Warns that there will be none of `bytes` bytes, because of this rank.
void tell_of_no_arena(std::size_t bytes, const std::string& why);

// The arenas of one rank's Collective; memory goes with its last user. For one thread.
class MappedArenas {
 public:
  void add(std::uint64_t number, const MappedArenaPtr& arena);
  // The arena in which the slices lie; null when they are to be packed. Throws
  // InvalidArgumentError when `rank`'s do not lie where they say.
  MappedArenaPtr find(std::span<const Slice> slices, Rank rank) const;

 private:
  std::map<std::uint64_t, std::weak_ptr<MappedArena>> arenas_;
};

}  // namespace hvd::engine::host
