#include "core/negotiate/tree.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/base/status.h"

namespace hvd {

Tree make_tree(Rank rank, std::span<const int> host_of, int fan_out) {
  const int size = static_cast<int>(host_of.size());
  if (rank < 0 || rank >= size || fan_out < 1) {
    throw InvalidArgumentError("make_tree: rank " + std::to_string(rank) + " of " +
                               std::to_string(size) + ", fan-out " + std::to_string(fan_out));
  }
  std::vector<Rank> leaders;     // ascending, because ranks are visited in order
  std::map<int, int> leader_of;  // host -> its place in `leaders`
  for (Rank r = 0; r < size; ++r) {
    if (leader_of.try_emplace(host_of[static_cast<std::size_t>(r)], leaders.size()).second) {
      leaders.push_back(r);
    }
  }
  const auto place =
      static_cast<std::size_t>(leader_of.at(host_of[static_cast<std::size_t>(rank)]));
  Tree tree{rank, size, leaders[place], {}};
  if (leaders[place] != rank) return tree;

  // Leaders form a heap: the children of place p are p * fan_out + 1 ... + fan_out.
  const auto width = static_cast<std::size_t>(fan_out);
  tree.parent = place == 0 ? rank : leaders[(place - 1) / width];
  for (Rank r = rank + 1; r < size; ++r) {
    if (host_of[static_cast<std::size_t>(r)] == host_of[static_cast<std::size_t>(rank)]) {
      tree.children.push_back(r);
    }
  }
  for (std::size_t c = place * width + 1; c <= place * width + width && c < leaders.size(); ++c) {
    tree.children.push_back(leaders[c]);
  }
  std::sort(tree.children.begin(), tree.children.end());
  return tree;
}

}  // namespace hvd
