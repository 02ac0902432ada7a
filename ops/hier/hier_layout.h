#pragma once

#include <span>
#include <vector>

#include "core/base/topology.h"

namespace hvd {

// The ranks of a Collective by host.
struct HierLayout {
  std::vector<std::vector<Rank>> hosts;  // of each host, ascending; in the order of lowest ranks
  std::size_t host = 0;                  // this rank's
  std::size_t local = 0;                 // this rank's place on it

  const std::vector<Rank>& here() const { return hosts[host]; }
  // Every host has as many.
  bool even() const;
  // Those of a host follow each other.
  bool in_blocks() const;
  // Who works with this rank between hosts: the ranks with its place on their hosts or, where hosts
  // are not even, the first rank of each. Empty if this rank has no part in it.
  std::vector<Rank> column() const;
};

// Rank r is on host host_of[r].
HierLayout make_hier_layout(Rank rank, std::span<const int> host_of);

}  // namespace hvd
