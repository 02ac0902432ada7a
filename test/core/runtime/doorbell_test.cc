#include "core/runtime/doorbell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace hvd {
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
  bell.listen(Listener::kDriver);
  std::thread owner([&] {
    Doorbell(state).sleep(seen, deadline, Listener::kOwner);
    owner_awake = true;
  });
  std::thread driver([&] { Doorbell(state).sleep(seen, deadline, Listener::kDriver); });
  std::this_thread::sleep_for(milliseconds(20));  // both sleep
  bell.ring();
  driver.join();
  EXPECT_FALSE(owner_awake);
  bell.listen(Listener::kOwner);
  bell.ring();
  owner.join();
  EXPECT_LT(Clock::now(), deadline);
}

TEST(Doorbell, GivesUpAtTheDeadline) {
  DoorbellState state;
  Doorbell bell(state);
  const auto start = Clock::now();
  bell.wait_until(bell.rings(), start + milliseconds(20));
  EXPECT_GE(Clock::now(), start + milliseconds(20));
}

}  // namespace
}  // namespace hvd
