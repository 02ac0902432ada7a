#include "horovod_cpp/distributed/session/rank_zero_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using ::testing::HasSubstr;

constexpr Duration kLong = std::chrono::minutes(5);

TEST(RankZeroSection, IsRunByTheFirstRankWhileTheOthersWait) {
  for (const int size : {1, 2, 4}) {
    std::atomic<int> finished{0};
    run_sets(size, [&](const ProcessSet& all) {
      for (int round = 1; round <= 3; ++round) {
        {
          RankZeroSection section(kLong, all);
          EXPECT_EQ(section.mine(), all.rank() == 0);
          if (section.mine()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            ++finished;
          }
        }
        EXPECT_GE(finished.load(), round);
        barrier({.process_set = all});
      }
    });
    EXPECT_EQ(finished.load(), 3);
  }
}

TEST(RankZeroSection, AnExceptionReachesTheOthersWithItsText) {
  run_sets(3, [](const ProcessSet& all) {
    const auto work = [] { throw std::runtime_error("disk is full"); };
    const auto run = [&] { rank_zero_section(kLong, work, all); };
    if (all.rank() == 0) {
      EXPECT_THAT(message_of<std::runtime_error>(run), "disk is full");
    } else {
      EXPECT_THAT(message_of<AbortedError>(run),
                  "rank_zero_section failed on rank 0: disk is full");
    }
    EXPECT_EQ(allreduce(Tensor::ones({1}), {.process_set = all}).item(), 1);  // the job goes on
  });
}

TEST(RankZeroSection, AnExceptionThatLeavesTheBlockReachesTheOthersToo) {
  run_sets(2, [](const ProcessSet& all) {
    const auto run = [&] {
      RankZeroSection section(kLong, all);
      if (section.mine()) throw std::runtime_error("disk is full");
    };
    if (all.rank() == 0) {
      EXPECT_THAT(message_of<std::runtime_error>(run), "disk is full");
    } else {
      EXPECT_THAT(message_of<AbortedError>(run), HasSubstr("an exception ended it"));
    }
  });
}

TEST(RankZeroSection, AnExceptionOnAnotherRankDoesNotWait) {
  run_sets(2, [](const ProcessSet& all) {
    const auto run = [&] {
      RankZeroSection section(kLong, all);
      if (!section.mine()) throw std::runtime_error("elsewhere");
    };
    if (all.rank() == 1) {
      EXPECT_THAT(message_of<std::runtime_error>(run), "elsewhere");
    } else {
      run();
    }
    barrier({.process_set = all});  // nobody leaves before
  });
}

TEST(RankZeroSection, EndsWithAnErrorWhenItTakesTooLong) {
  std::atomic<bool> others_gave_up{false};
  run_sets(2, [&](const ProcessSet& all) {
    const auto run = [&] {
      RankZeroSection section(std::chrono::milliseconds(all.rank() == 0 ? 60000 : 20), all);
      while (section.mine() && !others_gave_up) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
    if (all.rank() == 0) {
      run();
    } else {
      EXPECT_THAT(message_of<StalledError>(run), HasSubstr("rank 0 has not finished it within"));
      others_gave_up = true;
    }
    EXPECT_EQ(allreduce(Tensor::ones({1}), {.process_set = all}).item(), 1);
  });
}

// The engine warns of silent ranks, and gives them up, much sooner than the section does.
TEST(RankZeroSection, TheOthersAreNotStalledMeanwhile) {
  WorldsSetup setup;
  setup.config.stall_warning = std::chrono::milliseconds(20);
  setup.config.stall_limit = Duration::zero();
  std::latch begun(1);
  std::atomic<bool> stalled{false};
  run_sets(
      2,
      [&](const ProcessSet& all) {
        if (all.rank() == 1) begun.wait();
        RankZeroSection section(kLong, all);
        if (section.mine()) {
          all.world()->runtime().notifier().on_stall([&](const std::string&) { stalled = true; });
          begun.count_down();
          std::this_thread::sleep_for(std::chrono::milliseconds(400));
          EXPECT_FALSE(stalled);
        }
        section.finish();
      },
      setup);
}

TEST(RankZeroSection, RefusesATimeoutOfZero) {
  run_sets(1, [](const ProcessSet& all) {
    EXPECT_THROW(RankZeroSection(Duration::zero(), all), InvalidArgumentError);
  });
}

}  // namespace
}  // namespace hvd
