#include "core/base/topology.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/status.h"

namespace hvd {
namespace {

TEST(MakeTree, RanksOfOneHostReportToItsLowestRank) {
  const std::vector<int> host_of = {0, 0, 1, 1, 1};
  EXPECT_EQ(make_tree(0, host_of).children, (std::vector<Rank>{1, 2}));
  EXPECT_EQ(make_tree(2, host_of).children, (std::vector<Rank>{3, 4}));
  EXPECT_EQ(make_tree(2, host_of).parent, 0);
  EXPECT_EQ(make_tree(4, host_of).parent, 2);
}

TEST(MakeTree, HostsMayBeInterleaved) {
  const std::vector<int> host_of = {0, 1, 0, 1};
  EXPECT_EQ(make_tree(0, host_of).children, (std::vector<Rank>{1, 2}));
  EXPECT_EQ(make_tree(1, host_of).children, (std::vector<Rank>{3}));
}

TEST(MakeTree, EveryRankIsItsParentsChildAndReachesRankZero) {
  for (const int size : {1, 2, 33, 100, 1500}) {
    std::vector<int> host_of;
    for (int r = 0; r < size; ++r) host_of.push_back(r / 2);
    for (Rank r = 1; r < size; ++r) {
      const Tree tree = make_tree(r, host_of, 3);
      const Tree above = make_tree(tree.parent, host_of, 3);
      EXPECT_EQ(std::count(above.children.begin(), above.children.end(), r), 1);
      EXPECT_LT(tree.parent, r);
    }
  }
}

TEST(MakeTree, SaysWhichRanksAreBelowEachChild) {
  const std::vector<int> host_of = {0, 1, 0, 1, 2, 3, 3};
  const Tree root = make_tree(0, host_of, 2);
  EXPECT_EQ(root.children, (std::vector<Rank>{1, 2, 4}));
  EXPECT_EQ(root.below, (std::vector<std::vector<Rank>>{{1, 3, 5, 6}, {2}, {4}}));
  EXPECT_EQ(make_tree(1, host_of, 2).below, (std::vector<std::vector<Rank>>{{3}, {5, 6}}));
  EXPECT_TRUE(make_tree(4, host_of, 2).below.empty());
}

TEST(MakeTree, RefusesARankOutsideTheWorld) {
  const std::vector<int> host_of = {0, 0};
  EXPECT_THROW(make_tree(2, host_of), InvalidArgumentError);
  EXPECT_THROW(make_tree(0, host_of, 0), InvalidArgumentError);
}

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
