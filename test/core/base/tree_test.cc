#include "core/base/tree.h"

#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace hvd
