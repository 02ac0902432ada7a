#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/runtime/collective.h"

namespace hvd {

// An arena as one rank knows it.
struct SimArena {
  Buffer mine;
  std::vector<std::byte*> begin_of;  // by rank; the others keep their own alive

  // Where the slice lies on a rank.
  std::byte* at(std::size_t rank, const Slice& slice) const {
    return begin_of[rank] + slice.place->offset;
  }
};

using SimArenaPtr = std::shared_ptr<SimArena>;

// The arenas of one rank's Collective. For one thread.
class SimArenas {
 public:
  // Fills in `made` and keeps the arena until its memory goes; `exchange` tells all ranks its
  // address.
  using Exchange = std::function<std::unique_ptr<Operation>(std::span<const std::int64_t> mine,
                                                            std::span<std::int64_t> all)>;
  std::unique_ptr<Operation> make(std::uint64_t number, std::size_t bytes, int size,
                                  ArenaMemory& made, const Exchange& exchange);
  // The arena that the slices lie in; null when they are to be packed. Throws InvalidArgumentError
  // when they do not lie where they say.
  SimArenaPtr find(std::span<const Slice> slices, Rank rank) const;

 private:
  std::map<std::uint64_t, std::weak_ptr<SimArena>> arenas_;
};

}  // namespace hvd
