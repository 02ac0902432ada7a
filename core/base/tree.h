#pragma once

#include <span>
#include <vector>

#include "core/base/topology.h"

namespace hvd {

// Who reports to whom: ranks of one host to their leader (its lowest rank), leaders in a tree of
// the given fan-out under rank 0.
struct Tree {
  Rank rank = 0;
  int size = 1;
  Rank parent = 0;             // rank 0 is its own
  std::vector<Rank> children;  // ascending
  // The ranks at and below each child, ascending, in the order of `children`.
  std::vector<std::vector<Rank>> below = {};
};

inline constexpr int kTreeFanOut = 32;

// `host_of[r]` is the number of rank r's host. Pure: equal arguments give trees that fit together.
Tree make_tree(Rank rank, std::span<const int> host_of, int fan_out = kTreeFanOut);

}  // namespace hvd
