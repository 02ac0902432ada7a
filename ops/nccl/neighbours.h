#pragma once

#include <span>
#include <vector>

#include "core/ports/collective.h"

namespace hvd::engine {

// Slices of an arena in the order of memory, joined where one ends at the byte at which the next
// begins. What lies between two, be it padding of a few bytes, belongs to no slice: it divides
// them. Empty ones are left out. Equal on all ranks, as places and sizes are.
std::vector<Slice> join_neighbours(std::span<const Slice> slices);

}  // namespace hvd::engine
