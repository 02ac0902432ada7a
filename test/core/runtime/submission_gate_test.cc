#include "core/runtime/submission_gate.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/runtime/blocked_time.h"

namespace hvd {
namespace {

constexpr Duration kLong = std::chrono::seconds(30);

class Gate : public testing::Test {
 protected:
  // Runs `action` once the coordinator naps. Afterwards: whether it slept until the deadline.
  template <typename Action>
  bool sleeps_on_after(Duration limit, Action action) {
    const std::uint32_t seen = bell_.rings();
    const TimePoint deadline = Clock::now() + limit;
    std::thread coordinator([&] { gate_.nap(seen, deadline); });
    while (gate_.rings()) std::this_thread::yield();
    action();
    coordinator.join();
    return Clock::now() >= deadline;
  }

  DoorbellState state_;
  Doorbell bell_{state_};
  SubmissionGate gate_{bell_};
};

TEST_F(Gate, LetsSubmissionsRingUnlessTheCoordinatorNaps) {
  EXPECT_TRUE(gate_.rings());
  EXPECT_TRUE(sleeps_on_after(std::chrono::milliseconds(50), [&] { EXPECT_FALSE(gate_.rings()); }));
  EXPECT_TRUE(gate_.rings());
}

TEST_F(Gate, EndsTheNapWhenAThreadIsAboutToWait) {
  EXPECT_FALSE(sleeps_on_after(kLong, [&] { gate_.urge(); }));
}

TEST_F(Gate, EndsTheNapWhenTheBellRings) {
  EXPECT_FALSE(sleeps_on_after(kLong, [&] { bell_.ring(); }));
}

TEST_F(Gate, DoesNotLetTheCoordinatorNapWhileAThreadIsBlocked) {
  const BlockedThread blocked;
  const TimePoint deadline = Clock::now() + kLong;
  gate_.nap(bell_.rings(), deadline);
  EXPECT_LT(Clock::now(), deadline);
}

TEST_F(Gate, LeavesTheBellAloneOnceItIsClosed) {
  const std::uint32_t seen = bell_.rings();
  EXPECT_TRUE(sleeps_on_after(std::chrono::milliseconds(50), [&] {
    gate_.close();
    gate_.urge();
  }));
  EXPECT_EQ(bell_.rings(), seen);
}

}  // namespace
}  // namespace hvd
