#include "core/ports/doorbell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "test/support/threads.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Doorbell, ARingBetweenLookingAndWaitingIsNotLost) {
  DoorbellState state;
  Doorbell bell(state);
  const auto seen = bell.rings();
  bell.ring();
  bell.wait_until(seen, Clock::now() + seconds(30));
  EXPECT_NE(bell.rings(), seen);
}

TEST(Doorbell, WakesASleeperInAnotherThread) {
  DoorbellState state;
  Doorbell bell(state);
  const auto seen = bell.rings();
  std::thread ringer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    Doorbell(state).ring();
  });
  bell.wait_until(seen, Clock::now() + seconds(30));
  EXPECT_EQ(bell.rings(), seen + 1);
  ringer.join();
}

TEST(Doorbell, WakesThoseWhoListenAndNobodyElse) {
  DoorbellState state;
  Doorbell bell(state);
  const auto seen = bell.rings();
  const TimePoint deadline = Clock::now() + seconds(30);
  std::atomic<bool> owner_awake{false};
  std::atomic<pid_t> owner_id{0}, driver_id{0};
  bell.listen(Listener::kLoopOwner);
  std::thread owner([&] {
    owner_id = test::thread_id();
    Doorbell(state).sleep(seen, deadline, Listener::kOwner);
    owner_awake = true;
  });
  std::thread driver([&] {
    driver_id = test::thread_id();
    Doorbell(state).sleep(seen, deadline, Listener::kLoopOwner);
  });
  test::wait_until_asleep(owner_id);
  test::wait_until_asleep(driver_id);
  bell.ring();
  driver.join();
  EXPECT_FALSE(owner_awake);
  bell.listen(Listener::kOwner);
  bell.ring();
  owner.join();
  EXPECT_LT(Clock::now(), deadline);
}

// Two ring at once, again and again, while the sleeper is anywhere between waking and sleeping: the
// ring that comes last must not be slept through.
TEST(Doorbell, OfRingsAtOnceNoneIsSleptThrough) {
  constexpr std::uint32_t kRounds = 2000;
  DoorbellState state;
  std::atomic<std::uint32_t> heard{0};
  const auto ring = [&] {
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      while (heard < 2 * round) std::this_thread::yield();
      Doorbell(state).ring();
    }
  };
  std::thread one(ring), other(ring);
  bool slept_through = false;
  while (heard < 2 * kRounds && !slept_through) {
    const TimePoint deadline = Clock::now() + seconds(30);
    Doorbell(state).wait_until(heard, deadline);
    slept_through = Clock::now() >= deadline;
    heard = Doorbell(state).rings();
  }
  EXPECT_FALSE(slept_through) << "the last of " << heard << " rings";
  heard = 2 * kRounds;
  one.join();
  other.join();
}

TEST(Doorbell, GivesUpAtTheDeadline) {
  DoorbellState state;
  Doorbell bell(state);
  const auto start = Clock::now();
  bell.wait_until(bell.rings(), start + milliseconds(20));
  EXPECT_GE(Clock::now(), start + milliseconds(20));
}

}  // namespace
}  // namespace hvd::engine
