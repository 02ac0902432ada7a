#include "core/ports/placement.h"

#include <map>

namespace hvd {

Placement place(Rank rank, std::span<const std::string> identities,
                std::span<const std::string> names) {
  Placement placement{rank, {}, {}};
  std::map<std::string, int> number_of;
  for (std::size_t r = 0; r < identities.size(); ++r) {
    const auto [host, is_new] = number_of.emplace(identities[r], placement.hosts());
    if (is_new) placement.host_names.push_back(names[r]);
    placement.host_of.push_back(host->second);
  }
  return placement;
}

Topology topology_of(const Placement& placement) {
  const int my_host = placement.host_of[static_cast<std::size_t>(placement.rank)];
  std::vector<int> ranks_on(static_cast<std::size_t>(placement.hosts()), 0);
  Topology topology{placement.rank, placement.size(), 0, 0, 0, 0};
  for (Rank r = 0; r < placement.size(); ++r) {
    const int host = placement.host_of[static_cast<std::size_t>(r)];
    if (host == my_host && r < placement.rank) ++topology.local_rank;
    ++ranks_on[static_cast<std::size_t>(host)];
  }
  topology.local_size = ranks_on[static_cast<std::size_t>(my_host)];
  for (int host = 0; host < placement.hosts(); ++host) {
    if (ranks_on[static_cast<std::size_t>(host)] <= topology.local_rank) continue;
    if (host < my_host) ++topology.cross_rank;
    ++topology.cross_size;
  }
  return topology;
}

std::vector<Rank> local_ranks(const Placement& placement) {
  std::vector<Rank> ranks;
  for (Rank r = 0; r < placement.size(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (placement.host_of[at] == placement.host_of[static_cast<std::size_t>(placement.rank)]) {
      ranks.push_back(r);
    }
  }
  return ranks;
}

}  // namespace hvd
