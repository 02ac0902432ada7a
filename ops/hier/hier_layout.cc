#include "ops/hier/hier_layout.h"

#include <algorithm>
#include <map>

namespace hvd {

HierLayout make_hier_layout(Rank rank, std::span<const int> host_of) {
  HierLayout layout;
  std::map<int, std::size_t> place_of;  // by number of the host
  for (std::size_t r = 0; r < host_of.size(); ++r) {
    const auto [place, is_new] = place_of.try_emplace(host_of[r], layout.hosts.size());
    if (is_new) layout.hosts.emplace_back();
    std::vector<Rank>& ranks = layout.hosts[place->second];
    if (static_cast<Rank>(r) == rank) {
      layout.host = place->second;
      layout.local = ranks.size();
    }
    ranks.push_back(static_cast<Rank>(r));
  }
  return layout;
}

bool HierLayout::even() const {
  return std::all_of(hosts.begin(), hosts.end(),
                     [this](const auto& ranks) { return ranks.size() == hosts[0].size(); });
}

bool HierLayout::in_blocks() const {
  return std::all_of(hosts.begin(), hosts.end(), [](const std::vector<Rank>& ranks) {
    return ranks.back() - ranks.front() + 1 == static_cast<Rank>(ranks.size());
  });
}

std::vector<Rank> HierLayout::column() const {
  if (!even() && local != 0) return {};
  std::vector<Rank> ranks;
  for (const std::vector<Rank>& each : hosts) ranks.push_back(each[local]);
  return ranks;
}

}  // namespace hvd
