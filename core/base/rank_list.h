#pragma once

#include <span>
#include <string>

#include "core/base/topology.h"

namespace hvd {

// Ranks for people: "rank 3", "ranks 0 and 1", "ranks 0 to 4, 6 and 9", "no rank". `ranks` ascend.
// Of many pieces the last ones are counted: "... and 12 more ranks".
std::string describe_ranks(std::span<const Rank> ranks);

}  // namespace hvd
