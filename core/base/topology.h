#pragma once

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

}  // namespace hvd
