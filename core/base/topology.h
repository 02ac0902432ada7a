#pragma once

#include <span>
#include <string>
#include <vector>

namespace hvd {

using Rank = int;

// Where a rank stands. "local" counts the ranks of its host; "cross" counts the ranks with its
// local_rank on all hosts.
struct Topology {
  Rank rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;

  friend bool operator==(const Topology&, const Topology&) = default;
};

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

// Ranks for people: "rank 3", "ranks 0 and 1", "ranks 0 to 4, 6 and 9", "no rank". `ranks` ascend.
// Of many pieces the last ones are counted: "... and 12 more ranks".
std::string describe_ranks(std::span<const Rank> ranks);

}  // namespace hvd
