#include "core/runtime/wake/loop_ownership.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "core/runtime/completion.h"
#include "core/runtime/wake/waiting.h"
#include "test/support/threads.h"

namespace hvd {
namespace {

constexpr Duration kShort = std::chrono::milliseconds(50);
constexpr Duration kLong = std::chrono::seconds(30);

struct Loop final : CallerRunLoop {
  explicit Loop(Doorbell the_bell) : bell(the_bell) {}
  Rest drive(const Completion&, TimePoint) noexcept override {
    ++drives;
    const std::uint32_t seen = bell.rings();
    during();
    return {seen, until};
  }
  Doorbell bell;
  std::atomic<int> drives{0};
  std::function<void()> during = [] {};
  TimePoint until = TimePoint::max();
};

class Seat : public testing::Test {
 protected:
  // Runs `action` once the coordinator's thread has left the seat, and sleeps until a deadline that
  // is far away. Afterwards: whether it slept until then.
  template <typename Action>
  bool sleeps_on_after(Action action) {
    const std::uint32_t seen = bell_.rings();
    const TimePoint deadline = Clock::now() + kLong;
    std::atomic<pid_t> thread{0};
    std::thread coordinator([&] {
      thread = test::thread_id();
      ownership_.rest(seen, deadline);
    });
    test::wait_until_asleep(thread);
    action();
    coordinator.join();
    return Clock::now() >= deadline;
  }
  void drive() {
    const BlockedThread blocked;
    ownership_.drive(awaited_, Clock::now() + kLong);
  }

  DoorbellState state_;
  Doorbell bell_{state_};
  Loop loop_{bell_};
  Completion awaited_;
  LoopOwnership ownership_{bell_, loop_, true};
};

TEST_F(Seat, IsTakenByAThreadThatWaitsWhileTheCoordinatorRests) {
  sleeps_on_after([&] {
    drive();
    bell_.ring();
  });
  EXPECT_EQ(loop_.drives, 1);
}

TEST_F(Seat, IsNotTakenFromTheCoordinatorWhichIsToldToLook) {
  const std::uint32_t seen = bell_.rings();
  drive();
  EXPECT_EQ(loop_.drives, 0);
  EXPECT_NE(bell_.rings(), seen);
}

TEST_F(Seat, IsNotForOthersWhenTheLoopBelongsToAThread) {
  LoopOwnership seat(bell_, loop_, false);
  std::thread coordinator([&] { seat.rest(bell_.rings(), Clock::now() + kLong); });
  while (state_.listeners.load() == 0) std::this_thread::yield();
  seat.drive(awaited_, Clock::now() + kLong);
  coordinator.join();
  EXPECT_EQ(loop_.drives, 0);
  const LoopOwnership::SuppressWakeup waits;
  EXPECT_TRUE(seat.submissions_ring());
}

TEST_F(Seat, LetsTheCoordinatorSleepOnWhenNothingIsLeft) {
  sleeps_on_after([&] {
    const std::uint32_t seen = bell_.rings();
    loop_.during = [&] { EXPECT_EQ(state_.listeners.load(), 0U); };
    drive();
    EXPECT_EQ(loop_.drives, 1);
    EXPECT_EQ(bell_.rings(), seen);
    EXPECT_NE(state_.listeners.load(), 0U);
    bell_.ring();
  });
}

TEST_F(Seat, WakesTheCoordinatorForATimerThatEndsBeforeItLooks) {
  loop_.until = Clock::now() + kLong / 2;
  EXPECT_FALSE(sleeps_on_after([&] { drive(); }));
}

TEST_F(Seat, WakesTheCoordinatorWhenWorkIsLeft) {
  loop_.until = TimePoint{};
  EXPECT_FALSE(sleeps_on_after([&] { drive(); }));
}

TEST_F(Seat, WakesTheCoordinatorWhenTheBellRangUnheard) {
  loop_.during = [&] { bell_.ring(); };
  EXPECT_FALSE(sleeps_on_after([&] { drive(); }));
}

TEST_F(Seat, GoesBackToTheCoordinatorOnlyWhenTheDriverHasLeftIt) {
  std::atomic<bool> driven{false};
  EXPECT_FALSE(sleeps_on_after([&] {
    loop_.during = [&] {
      Doorbell(state_).ring();
      std::this_thread::sleep_for(kShort);
      driven = true;
    };
    drive();
  }));
  EXPECT_TRUE(driven);
}

TEST_F(Seat, LetsSubmissionsRing) {
  EXPECT_TRUE(ownership_.submissions_ring());
}

TEST_F(Seat, IsLeftForANapThatTheBellDoesNotEnd) {
  while (blocked_threads() != 0) std::this_thread::yield();  // of tests before
  const TimePoint deadline = Clock::now() + kShort;
  std::atomic<bool> awake{false};
  std::thread coordinator([&] {
    ownership_.nap(deadline);
    awake = true;
  });
  while (!awake && Clock::now() < deadline) bell_.ring();
  coordinator.join();
  EXPECT_GE(Clock::now(), deadline);
}

TEST_F(Seat, IsTakenByAThreadThatWaitsDuringANap) {
  std::atomic<bool> driven{false};
  std::thread coordinator([&] {
    while (!driven) ownership_.nap(Clock::now() + kShort);
  });
  while (loop_.drives == 0) drive();
  driven = true;
  coordinator.join();
}

TEST_F(Seat, EndsTheNapOfACoordinatorWhoseLoopIsNotForOthers) {
  LoopOwnership seat(bell_, loop_, false);
  const TimePoint deadline = Clock::now() + kLong;
  std::atomic<bool> awake{false};
  std::thread coordinator([&] {
    seat.nap(deadline);
    awake = true;
  });
  while (!awake) seat.drive(awaited_, deadline);
  coordinator.join();
  EXPECT_LT(Clock::now(), deadline);
}

// What is added rings only if a thread adds it that does not drive; the coordinator's thread does
// the rest of it, whatever came when.
TEST_F(Seat, NeverLosesWorkThatADriverLeaves) {
  int done = 0;  // belongs to who has the seat
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
        ownership_.nap(Clock::now() + kShort / 1000);
      } else {
        ownership_.rest(seen, TimePoint::max());
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
    for (int turn = 0; turn < i % 3; ++turn) drive();
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

TEST_F(Seat, DoesNotLetSubmissionsRingOfWhoWaitsForThemAtOnce) {
  {
    const LoopOwnership::SuppressWakeup waits;
    EXPECT_FALSE(ownership_.submissions_ring());
    bool elsewhere = false;
    std::thread([&] { elsewhere = ownership_.submissions_ring(); }).join();
    EXPECT_TRUE(elsewhere);
  }
  EXPECT_TRUE(ownership_.submissions_ring());
}

TEST_F(Seat, DoesNotLetTheCoordinatorNapWhileAThreadIsBlocked) {
  const BlockedThread blocked;
  const TimePoint deadline = Clock::now() + kLong;
  ownership_.nap(deadline);
  EXPECT_LT(Clock::now(), deadline);
}

TEST_F(Seat, LeavesTheBellAloneOnceItIsClosed) {
  ownership_.close();
  const std::uint32_t seen = bell_.rings();
  drive();
  EXPECT_EQ(bell_.rings(), seen);
}

}  // namespace
}  // namespace hvd
