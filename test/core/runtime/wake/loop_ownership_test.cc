#include "core/runtime/wake/loop_ownership.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "core/runtime/completion.h"
#include "core/runtime/wake/waiting.h"
#include "test/support/threads.h"

namespace hvd::engine {
namespace {

constexpr Duration kShort = std::chrono::milliseconds(50);
constexpr Duration kLong = std::chrono::seconds(30);

struct Loop final : CallerRunLoop {
  explicit Loop(Doorbell the_bell) : bell(the_bell) {}
  Rest run_until(const Completion&, TimePoint) noexcept override {
    ++runs;
    const std::uint32_t seen = bell.rings();
    during();
    return {seen, until};
  }
  Doorbell bell;
  std::atomic<int> runs{0};
  std::function<void()> during = [] {};
  TimePoint until = TimePoint::max();
};

class Ownership : public testing::Test {
 protected:
  // Runs `action` once the coordinator's thread has left the loop, and sleeps until a deadline that
  // is far away. Afterwards: whether it slept until then.
  template <typename Action>
  bool sleeps_on_after(Action action) {
    const std::uint32_t seen = bell_.rings();
    const TimePoint deadline = Clock::now() + kLong;
    std::atomic<pid_t> thread{0};
    std::thread coordinator([&] {
      thread = test::thread_id();
      ownership_.idle(seen, deadline);
    });
    test::wait_until_asleep(thread);
    action();
    coordinator.join();
    return Clock::now() >= deadline;
  }
  void run_loop() {
    const BlockedThread blocked;
    ownership_.run_until(awaited_, Clock::now() + kLong);
  }

  DoorbellState state_;
  Doorbell bell_{state_};
  Loop loop_{bell_};
  Completion awaited_;
  LoopOwnership ownership_{bell_, loop_, true};
};

TEST_F(Ownership, IsTakenByAThreadThatWaitsWhileTheCoordinatorRests) {
  sleeps_on_after([&] {
    run_loop();
    bell_.ring();
  });
  EXPECT_EQ(loop_.runs, 1);
}

TEST_F(Ownership, IsNotTakenFromTheCoordinatorWhichIsToldToLook) {
  const std::uint32_t seen = bell_.rings();
  run_loop();
  EXPECT_EQ(loop_.runs, 0);
  EXPECT_NE(bell_.rings(), seen);
}

TEST_F(Ownership, IsNotForOthersWhenTheLoopBelongsToAThread) {
  LoopOwnership ownership(bell_, loop_, false);
  std::thread coordinator([&] { ownership.idle(bell_.rings(), Clock::now() + kLong); });
  while (state_.listeners.load() == 0) std::this_thread::yield();
  ownership.run_until(awaited_, Clock::now() + kLong);
  coordinator.join();
  EXPECT_EQ(loop_.runs, 0);
}

TEST_F(Ownership, LetsTheCoordinatorSleepOnWhenNothingIsLeft) {
  sleeps_on_after([&] {
    const std::uint32_t seen = bell_.rings();
    loop_.during = [&] { EXPECT_EQ(state_.listeners.load(), 0U); };
    run_loop();
    EXPECT_EQ(loop_.runs, 1);
    EXPECT_EQ(bell_.rings(), seen);
    EXPECT_NE(state_.listeners.load(), 0U);
    bell_.ring();
  });
}

TEST_F(Ownership, WakesTheCoordinatorForATimerThatEndsBeforeItLooks) {
  loop_.until = Clock::now() + kLong / 2;
  EXPECT_FALSE(sleeps_on_after([&] { run_loop(); }));
}

TEST_F(Ownership, WakesTheCoordinatorWhenWorkIsLeft) {
  loop_.until = TimePoint{};
  EXPECT_FALSE(sleeps_on_after([&] { run_loop(); }));
}

TEST_F(Ownership, WakesTheCoordinatorWhenTheBellRangUnheard) {
  loop_.during = [&] { bell_.ring(); };
  EXPECT_FALSE(sleeps_on_after([&] { run_loop(); }));
}

TEST_F(Ownership, GoesBackToTheCoordinatorOnlyWhenTheCallerHasLeftIt) {
  std::atomic<bool> ran{false};
  EXPECT_FALSE(sleeps_on_after([&] {
    loop_.during = [&] {
      Doorbell(state_).ring();
      std::this_thread::sleep_for(kShort);
      ran = true;
    };
    run_loop();
  }));
  EXPECT_TRUE(ran);
}

TEST_F(Ownership, IsLeftWhileSubmissionsCoalesceWhateverRings) {
  while (blocked_threads() != 0) std::this_thread::yield();  // of tests before
  const TimePoint deadline = Clock::now() + kShort;
  std::atomic<bool> awake{false};
  std::thread coordinator([&] {
    ownership_.coalesce(deadline);
    awake = true;
  });
  while (!awake && Clock::now() < deadline) bell_.ring();
  coordinator.join();
  EXPECT_GE(Clock::now(), deadline);
}

TEST_F(Ownership, IsTakenByAThreadThatWaitsWhileSubmissionsCoalesce) {
  std::atomic<bool> ran{false};
  std::thread coordinator([&] {
    while (!ran) ownership_.coalesce(Clock::now() + kShort);
  });
  while (loop_.runs == 0) run_loop();
  ran = true;
  coordinator.join();
}

TEST_F(Ownership, WakesACoalescingCoordinatorWhoseLoopIsNotForOthers) {
  LoopOwnership ownership(bell_, loop_, false);
  const TimePoint deadline = Clock::now() + kLong;
  std::atomic<bool> awake{false};
  std::thread coordinator([&] {
    ownership.coalesce(deadline);
    awake = true;
  });
  while (!awake) ownership.run_until(awaited_, deadline);
  coordinator.join();
  EXPECT_LT(Clock::now(), deadline);
}

// What is added rings only if a thread adds it that does not run the loop; the coordinator's thread
// does the rest of it, whatever came when.
TEST_F(Ownership, NeverLosesWorkThatACallerLeaves) {
  int done = 0;  // belongs to who owns the loop
  std::atomic<int> added{0};
  std::atomic<int> seen_done{0};
  std::atomic<bool> stop{false};
  loop_.during = [&] {
    if (done < added) seen_done = ++done;
    loop_.until = done < added ? TimePoint{} : TimePoint::max();
  };
  std::thread coordinator([&] {
    while (!stop) {
      const std::uint32_t seen = bell_.rings();
      if (done < added) {
        seen_done = ++done;
      } else if (done % 3 == 0) {
        ownership_.coalesce(Clock::now() + kShort / 1000);
      } else {
        ownership_.idle(seen, TimePoint::max());
      }
    }
  });
  std::thread submitter([&] {
    for (int i = 0; i < 2000; ++i) {
      ++added;
      bell_.ring();
    }
  });
  for (int i = 0; i < 2000; ++i) {
    added += i % 4;
    for (int turn = 0; turn < i % 3; ++turn) run_loop();
    if (i % 4 != 0 && i % 3 == 0) bell_.ring();
  }
  submitter.join();
  const TimePoint limit = Clock::now() + kLong;
  while (seen_done < added && Clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(seen_done, added);
  stop = true;
  bell_.ring();
  coordinator.join();
}

TEST_F(Ownership, DoesNotLetTheCoordinatorCoalesceWhileAThreadIsBlocked) {
  const BlockedThread blocked;
  const TimePoint deadline = Clock::now() + kLong;
  ownership_.coalesce(deadline);
  EXPECT_LT(Clock::now(), deadline);
}

TEST_F(Ownership, LeavesTheBellAloneOnceItIsClosed) {
  ownership_.close();
  const std::uint32_t seen = bell_.rings();
  run_loop();
  EXPECT_EQ(bell_.rings(), seen);
}

}  // namespace
}  // namespace hvd::engine
