#include "core/base/rank_list.h"

#include <vector>

namespace hvd {
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
