#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "core/ports/collective.h"
#include "ops/host/host_memory.h"

namespace hvd {

// How a rank tells all ranks a number: Collective::exchange.
using SimExchange = std::function<std::unique_ptr<Operation>(std::span<const std::int64_t> mine,
                                                             std::span<std::int64_t> all)>;

// Fills `arena` in with the addresses of memory of `bytes` bytes on `size` ranks, of which they
// tell each other; then `made`.
std::unique_ptr<Operation> make_sim_arena(host::MappedArenaPtr arena, std::size_t bytes, int size,
                                          ArenaMemory& made, const SimExchange& exchange);

}  // namespace hvd
