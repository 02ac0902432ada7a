#include "core/system/core_binding.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <thread>

namespace hvd::engine {
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

// A thread that does nothing until it is asked where it may run, by its own word.
class BoundThread {
 public:
  explicit BoundThread(const Cores& cores)
      : thread_([this, cores] {
          bind_this_thread(cores);
          step_ = 1;
          step_.notify_all();
          step_.wait(1);
        }) {
    step_.wait(0);
    handle_ = thread_.native_handle();
  }
  ~BoundThread() {
    step_ = 2;
    step_.notify_all();
    thread_.join();
  }
  Cores cores() const {
    cpu_set_t set;
    CPU_ZERO(&set);
    pthread_getaffinity_np(handle_, sizeof set, &set);
    Cores found;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<std::size_t>(core), &set)) found.push_back(core);
    }
    return found;
  }

 private:
  static void bind_this_thread(const Cores& cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
    sched_setaffinity(0, sizeof set, &set);
  }

  std::atomic<int> step_{0};
  std::thread thread_;
  pthread_t handle_{};
};

// One on the cores that the binding gives away, one on those that it takes.
TEST(CoreBinding, LeavesThreadsThatTheProgramBoundWhereTheyAre) {
  if (core_count() < 2) GTEST_SKIP() << "one core";
  Cores all;
  for (int core = 0; core < core_count(); ++core) all.push_back(core);
  const Cores first = share_of_cores(all, 0, 2);
  const Cores second = share_of_cores(all, 1, 2);
  const BoundThread elsewhere(first);
  const BoundThread alike(second);
  {
    const CoreBinding binding(1, 2);
    EXPECT_EQ(elsewhere.cores(), first);
    EXPECT_EQ(alike.cores(), second);
    const BoundThread meanwhile(first);
    EXPECT_EQ(meanwhile.cores(), first);
  }
  EXPECT_EQ(elsewhere.cores(), first);
  EXPECT_EQ(alike.cores(), second);
}

TEST(CoreBinding, FreesTheThreadsThatWereStartedMeanwhile) {
  const int before = core_count();
  std::atomic<bool> over{false};
  int after = 0;
  std::thread started;
  {
    const CoreBinding binding(1, 2);
    started = std::thread([&] {
      over.wait(false);
      after = core_count();
    });
  }
  over = true;
  over.notify_all();
  started.join();
  EXPECT_EQ(after, before);
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
}  // namespace hvd::engine
