#include "core/runtime/core_binding.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

namespace hvd {
namespace {

using Cores = std::vector<int>;

int core_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return CPU_COUNT(&set);
}

TEST(CoreBinding, SharesTheCoresOfAHostEvenly) {
  EXPECT_EQ(share_of_cores({0, 1, 2, 3}, 0, 2), (Cores{0, 1}));
  EXPECT_EQ(share_of_cores({0, 1, 2, 3}, 1, 2), (Cores{2, 3}));
  EXPECT_EQ(share_of_cores({4, 6, 8}, 2, 3), Cores{8});
  EXPECT_EQ(share_of_cores({0, 1, 2, 3, 4}, 1, 2), (Cores{2, 3}));
}

TEST(CoreBinding, PutsEquallyManyOfTheRanksThatOutnumberTheCoresOnEach) {
  EXPECT_EQ(share_of_cores({0, 1}, 0, 4), Cores{0});
  EXPECT_EQ(share_of_cores({0, 1}, 1, 4), Cores{0});
  EXPECT_EQ(share_of_cores({0, 1}, 2, 4), Cores{1});
  EXPECT_EQ(share_of_cores({3, 5, 7}, 8, 9), Cores{7});
}

TEST(CoreBinding, LetsRanksThatOutnumberTheCoresUseAllIfSomeCoreWouldHaveMore) {
  EXPECT_EQ(share_of_cores({0, 1}, 2, 3), (Cores{0, 1}));
}

TEST(CoreBinding, HoldsForAllThreadsWhileItLives) {
  const int before = core_count();
  const int share = before < 2 ? before : before / 2;
  std::atomic<int> step{0};
  int bound = 0;
  int after = 0;
  std::thread other([&] {
    step = 1;
    step.wait(1);
    bound = core_count();
    step = 3;
    step.notify_all();
    step.wait(3);
    after = core_count();
  });
  while (step != 1) std::this_thread::yield();
  {
    const CoreBinding binding(1, 2);
    EXPECT_EQ(core_count(), share);
    step = 2;
    step.notify_all();
    step.wait(2);
  }
  step = 4;
  step.notify_all();
  other.join();
  EXPECT_EQ(bound, share);
  EXPECT_EQ(after, before);
  EXPECT_EQ(core_count(), before);
}

TEST(CoreBinding, LeavesARankAloneOnItsHostAsItWas) {
  const int before = core_count();
  const CoreBinding binding(0, 1);
  EXPECT_EQ(core_count(), before);
}

TEST(CoreBinding, LeavesAProcessThatSomebodyBoundAsItWas) {
  const CoreBinding outer(0, 2);
  const int before = core_count();
  {
    const CoreBinding inner(0, 2);
    EXPECT_EQ(core_count(), before);
  }
  EXPECT_EQ(core_count(), before);
}

}  // namespace
}  // namespace hvd
