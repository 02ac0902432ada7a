#include "core/base/rank_list.h"

#include <gtest/gtest.h>

#include <vector>

namespace hvd {
namespace {

std::string text_of(const std::vector<Rank>& ranks) {
  return describe_ranks(ranks);
}

TEST(DescribeRanks, ReadsLikeASentence) {
  EXPECT_EQ(text_of({}), "no rank");
  EXPECT_EQ(text_of({3}), "rank 3");
  EXPECT_EQ(text_of({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(text_of({0, 2, 3}), "ranks 0, 2 and 3");
}

TEST(DescribeRanks, ShortensRuns) {
  EXPECT_EQ(text_of({0, 1, 2}), "ranks 0 to 2");
  EXPECT_EQ(text_of({0, 1, 2, 3, 6, 8, 9, 10}), "ranks 0 to 3, 6 and 8 to 10");
}

TEST(DescribeRanks, CountsWhatIsTooManyPieces) {
  std::vector<Rank> even;
  for (Rank rank = 0; rank < 100; rank += 2) even.push_back(rank);
  EXPECT_EQ(text_of(even),
            "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30 and 34 more ranks");
}

}  // namespace
}  // namespace hvd
