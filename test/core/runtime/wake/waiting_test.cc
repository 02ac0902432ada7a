#include "core/runtime/wake/waiting.h"

#include <gtest/gtest.h>

namespace hvd::engine {
namespace {

TEST(SpinLimits, MakeRanksThatShareACoreGiveItAway) {
  const SpinLimits limits = spin_limits(0.5);
  EXPECT_TRUE(limits.yields);
  EXPECT_FALSE(spin_limits(1).yields);
  EXPECT_GT(limits.returns, spin_limits(1).returns);
  EXPECT_EQ(limits.coordinator, Duration::zero());
  EXPECT_EQ(limits.waiter, Duration::zero());
}

TEST(SpinLimits, GiveTheCoordinatorTheCoreOfAThreadThatWaits) {
  const SpinLimits limits = spin_limits(1);
  EXPECT_GT(limits.coordinator_waited_for, Duration::zero());
  EXPECT_EQ(limits.coordinator, Duration::zero());
  EXPECT_EQ(limits.waiter, Duration::zero());
}

TEST(SpinLimits, LetBothSpinWhereEachHasACore) {
  const SpinLimits limits = spin_limits(2);
  EXPECT_GT(limits.coordinator_waited_for, Duration::zero());
  EXPECT_GT(limits.coordinator, Duration::zero());
  EXPECT_GT(limits.waiter, Duration::zero());
}

TEST(SpinLimits, CountTheCoresThatAreLeftToOneRank) {
  const double alone = cores_per_rank(1);
  EXPECT_GE(alone, 1);
  EXPECT_LE(cores_per_rank(1000), alone);
  EXPECT_GT(cores_per_rank(1000), 0);
}

TEST(SpinLimits, OfTheWaiterHoldForTheProcess) {
  const Duration before = waiter_spin();
  set_waiter_spin(std::chrono::microseconds(7));
  EXPECT_EQ(waiter_spin(), std::chrono::microseconds(7));
  set_waiter_spin(before);
}

}  // namespace
}  // namespace hvd::engine
