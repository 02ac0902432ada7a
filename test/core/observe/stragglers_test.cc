#include "core/observe/stragglers.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

using std::chrono::microseconds;

TEST(Stragglers, WhoWaitedLeastWasTheLast) {
  Stragglers stragglers(3);
  stragglers.add(0, 1, microseconds(100));
  stragglers.add(1, 1, microseconds(10));
  stragglers.add(2, 1, microseconds(60));
  stragglers.add(2, 2, microseconds(5));
  stragglers.add(0, 2, microseconds(25));
  stragglers.add(1, 2, microseconds(0));
  const auto totals = stragglers.totals();
  EXPECT_EQ(totals[0].total, microseconds(0));
  EXPECT_EQ(totals[1].total, microseconds(90 + 25));
  EXPECT_EQ(totals[1].longest, microseconds(90));
  EXPECT_EQ(totals[1].last, 2u);
  EXPECT_EQ(totals[2].total, microseconds(40 + 20));
  EXPECT_EQ(totals[2].last, 0u);
  EXPECT_EQ(totals[2].batches, 2u);
}

TEST(Stragglers, BatchesOfAFewRanksCountToo) {
  Stragglers stragglers(3);
  stragglers.add(0, 5, microseconds(7));
  EXPECT_EQ(stragglers.totals()[0].batches, 0u);  // nobody to compare with
  stragglers.add(2, 5, microseconds(9));
  for (int look = 0; look < 2; ++look) {
    EXPECT_EQ(stragglers.totals()[0].total, microseconds(2));
    EXPECT_EQ(stragglers.totals()[0].last, 1u);
    EXPECT_EQ(stragglers.totals()[1].batches, 0u);
  }
}

TEST(Stragglers, TheOldestIncompleteBatchMakesRoom) {
  Stragglers stragglers(3);
  const std::uint64_t many = 3 * Stragglers::kPending;
  for (std::uint64_t batch = 0; batch < many; ++batch) {
    stragglers.add(0, batch, microseconds(1));
    stragglers.add(1, batch, microseconds(0));
  }
  EXPECT_EQ(stragglers.totals()[1].last, many);
  EXPECT_EQ(stragglers.totals()[1].total, microseconds(many));
}

}  // namespace
}  // namespace hvd
