#include "core/base/topology.h"

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace hvd {
namespace {

// Leaders form a heap: the children of place p are p * fan_out + 1 ... + fan_out.
std::size_t place_above(std::size_t place, std::size_t fan_out) {
  return (place - 1) / fan_out;
}

}  // namespace

Tree make_tree(Rank rank, std::span<const int> host_of, int fan_out) {
  const int size = static_cast<int>(host_of.size());
  if (rank < 0 || rank >= size || fan_out < 1) {
    throw InvalidArgumentError("make_tree: rank " + std::to_string(rank) + " of " +
                               std::to_string(size) + ", fan-out " + std::to_string(fan_out));
  }
  std::vector<Rank> leaders;          // ascending, because ranks are visited in order
  std::map<int, std::size_t> places;  // host -> its leader's place in `leaders`
  std::vector<std::size_t> place_of;  // by rank
  for (Rank r = 0; r < size; ++r) {
    const auto [host, first] =
        places.try_emplace(host_of[static_cast<std::size_t>(r)], leaders.size());
    if (first) leaders.push_back(r);
    place_of.push_back(host->second);
  }
  const std::size_t place = place_of[static_cast<std::size_t>(rank)];
  const auto width = static_cast<std::size_t>(fan_out);
  Tree tree{rank, size, leaders[place], {}, {}};
  if (leaders[place] != rank) return tree;
  tree.parent = place == 0 ? rank : leaders[place_above(place, width)];

  // By place: the child of this rank on the way up from there, or this rank itself if the way does
  // not pass it.
  std::vector<Rank> way(leaders.size(), rank);
  for (std::size_t p = place + 1; p < leaders.size(); ++p) {
    const std::size_t above = place_above(p, width);
    way[p] = above == place ? leaders[p] : way[above];
  }
  std::map<Rank, std::vector<Rank>> below;
  for (Rank r = 0; r < size; ++r) {
    const std::size_t at = place_of[static_cast<std::size_t>(r)];
    const Rank child = at == place ? r : way[at];
    if (child != rank) below[child].push_back(r);
  }
  for (auto& [child, ranks] : below) {
    tree.children.push_back(child);
    tree.below.push_back(std::move(ranks));
  }
  return tree;
}

namespace {

constexpr std::size_t kPieces = 16;

// A run of at least three numbers is one piece.
std::size_t end_of_piece(std::span<const Rank> ranks, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
  return end - begin >= 3 ? end : begin + 1;
}

}  // namespace

std::string describe_ranks(std::span<const Rank> ranks) {
  if (ranks.empty()) return "no rank";
  std::vector<std::string> pieces;
  std::size_t begin = 0;
  while (begin < ranks.size() && pieces.size() < kPieces) {
    const std::size_t end = end_of_piece(ranks, begin);
    std::string piece = std::to_string(ranks[begin]);
    if (end > begin + 1) piece += " to " + std::to_string(ranks[end - 1]);
    pieces.push_back(std::move(piece));
    begin = end;
  }
  if (begin < ranks.size()) pieces.push_back(std::to_string(ranks.size() - begin) + " more ranks");
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) text += i + 1 == pieces.size() ? " and " : ", ";
    text += pieces[i];
  }
  return text;
}

}  // namespace hvd
