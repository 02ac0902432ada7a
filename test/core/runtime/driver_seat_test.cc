#include "core/runtime/driver_seat.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "core/runtime/blocked_time.h"
#include "core/runtime/completion.h"

namespace hvd {
namespace {

constexpr Duration kShort = std::chrono::milliseconds(50);
constexpr Duration kLong = std::chrono::seconds(30);

struct Loop final : Drivable {
  explicit Loop(Doorbell the_bell) : bell(the_bell) {}
  std::optional<std::uint32_t> drive(const Completion&, TimePoint) noexcept override {
    ++drives;
    const std::uint32_t seen = bell.rings();
    during();
    return work_left ? std::nullopt : std::optional(seen);
  }
  Doorbell bell;
  std::atomic<int> drives{0};
  std::function<void()> during = [] {};
  bool work_left = false;
};

class Seat : public testing::Test {
 protected:
  using Rest = void (DriverSeat::*)(std::uint32_t, TimePoint) noexcept;

  // Runs `action` once the coordinator's thread has left the seat. Afterwards: whether it slept
  // until the deadline.
  template <typename Action>
  bool sleeps_on_after(Rest rest, Duration limit, Action action) {
    const std::uint32_t seen = bell_.rings();
    const TimePoint deadline = Clock::now() + limit;
    std::thread coordinator([&] { (seat_.*rest)(seen, deadline); });
    while (state_.listeners.load() == 0) std::this_thread::yield();
    action();
    coordinator.join();
    return Clock::now() >= deadline;
  }
  void drive() {
    const BlockedThread blocked;
    seat_.drive(awaited_, Clock::now() + kLong);
  }

  DoorbellState state_;
  Doorbell bell_{state_};
  Loop loop_{bell_};
  Completion awaited_;
  DriverSeat seat_{bell_, loop_, true};
};

TEST_F(Seat, IsTakenByAThreadThatWaitsWhileTheCoordinatorRests) {
  EXPECT_TRUE(sleeps_on_after(&DriverSeat::rest, kShort, [&] { drive(); }));
  EXPECT_EQ(loop_.drives, 1);
}

TEST_F(Seat, IsNotTakenFromTheCoordinatorWhichIsToldToLook) {
  const std::uint32_t seen = bell_.rings();
  drive();
  EXPECT_EQ(loop_.drives, 0);
  EXPECT_NE(bell_.rings(), seen);
}

TEST_F(Seat, IsNotForOthersWhenTheLoopBelongsToAThread) {
  DriverSeat seat(bell_, loop_, false);
  std::thread coordinator([&] { seat.rest(bell_.rings(), Clock::now() + kShort); });
  while (state_.listeners.load() == 0) std::this_thread::yield();
  seat.drive(awaited_, Clock::now() + kLong);
  coordinator.join();
  EXPECT_EQ(loop_.drives, 0);
  const DriverSeat::WaitsAtOnce waits;
  EXPECT_TRUE(seat.submissions_ring());
}

TEST_F(Seat, LetsTheCoordinatorSleepOnWhenNothingIsLeft) {
  EXPECT_TRUE(sleeps_on_after(&DriverSeat::rest, kShort, [&] {
    loop_.during = [&] { EXPECT_EQ(state_.listeners.load(), 0U); };
    drive();
    EXPECT_NE(state_.listeners.load(), 0U);
  }));
}

TEST_F(Seat, WakesTheCoordinatorWhenWorkIsLeft) {
  loop_.work_left = true;
  EXPECT_FALSE(sleeps_on_after(&DriverSeat::rest, kLong, [&] { drive(); }));
}

TEST_F(Seat, WakesTheCoordinatorWhenTheBellRangUnheard) {
  loop_.during = [&] { bell_.ring(); };
  EXPECT_FALSE(sleeps_on_after(&DriverSeat::rest, kLong, [&] { drive(); }));
}

TEST_F(Seat, GoesBackToTheCoordinatorOnlyWhenTheDriverHasLeftIt) {
  std::atomic<bool> driven{false};
  EXPECT_FALSE(sleeps_on_after(&DriverSeat::rest, kLong, [&] {
    loop_.during = [&] {
      Doorbell(state_).ring();
      std::this_thread::sleep_for(kShort);
      driven = true;
    };
    drive();
  }));
  EXPECT_TRUE(driven);
}

TEST_F(Seat, LetsSubmissionsRingUnlessTheCoordinatorNaps) {
  EXPECT_TRUE(seat_.submissions_ring());
  EXPECT_TRUE(
      sleeps_on_after(&DriverSeat::nap, kShort, [&] { EXPECT_FALSE(seat_.submissions_ring()); }));
  EXPECT_TRUE(seat_.submissions_ring());
}

TEST_F(Seat, LetsSubmissionsRingWhileAnotherThreadDrivesDuringANap) {
  loop_.during = [&] { EXPECT_TRUE(seat_.submissions_ring()); };
  EXPECT_TRUE(sleeps_on_after(&DriverSeat::nap, kShort, [&] { drive(); }));
  EXPECT_EQ(loop_.drives, 1);
}

TEST_F(Seat, DoesNotLetSubmissionsRingOfWhoWaitsForThemAtOnce) {
  {
    const DriverSeat::WaitsAtOnce waits;
    EXPECT_FALSE(seat_.submissions_ring());
    bool elsewhere = false;
    std::thread([&] { elsewhere = seat_.submissions_ring(); }).join();
    EXPECT_TRUE(elsewhere);
  }
  EXPECT_TRUE(seat_.submissions_ring());
}

TEST_F(Seat, DoesNotLetTheCoordinatorNapWhileAThreadIsBlocked) {
  const BlockedThread blocked;
  const TimePoint deadline = Clock::now() + kLong;
  seat_.nap(bell_.rings(), deadline);
  EXPECT_LT(Clock::now(), deadline);
}

TEST_F(Seat, LeavesTheBellAloneOnceItIsClosed) {
  seat_.close();
  const std::uint32_t seen = bell_.rings();
  drive();
  EXPECT_EQ(bell_.rings(), seen);
}

}  // namespace
}  // namespace hvd
