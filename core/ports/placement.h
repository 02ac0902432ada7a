#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/topology.h"

namespace hvd {

// Which rank is where: the same on every rank but for `rank`.
struct Placement {
  Rank rank = 0;
  std::vector<int> host_of = {0};  // by rank; hosts count in order of their lowest rank
  std::vector<std::string> host_names = {"?"};  // by host, for messages to people

  int size() const { return static_cast<int>(host_of.size()); }
  int hosts() const { return static_cast<int>(host_names.size()); }
  const std::string& host_name(Rank of) const {
    return host_names[static_cast<std::size_t>(host_of[static_cast<std::size_t>(of)])];
  }
};

// Ranks with equal identity share a host. `identities` and `names` have one entry a rank; a host
// is called what its lowest rank calls it.
Placement place(Rank rank, std::span<const std::string> identities,
                std::span<const std::string> names);

Topology topology_of(const Placement& placement);

// The ranks on the host of `placement.rank`, ascending; that rank among them.
std::vector<Rank> local_ranks(const Placement& placement);

}  // namespace hvd
