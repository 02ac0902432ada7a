#include "core/negotiate/stall/stall_monitor.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

using std::chrono::seconds;

TimePoint at(int second) {
  return TimePoint{} + seconds(second);
}

TEST(StallMonitor, ReportsAtAQuarterAsksAtHalfAndWarnsAtTheWarningTime) {
  StallMonitor monitor(seconds(80), seconds(0));
  const std::vector<Waiting> waiting = {{"w", 1, {}}};
  EXPECT_TRUE(monitor.check(at(0), waiting).held.empty());
  EXPECT_EQ(monitor.check(at(20), waiting).held.size(), 1u);
  EXPECT_FALSE(monitor.check(at(39), waiting).ask);
  EXPECT_TRUE(monitor.check(at(40), waiting).ask);
  EXPECT_FALSE(monitor.check(at(50), waiting).ask) << "once a wait";
  EXPECT_TRUE(monitor.check(at(79), waiting).overdue.empty());
  const StallFindings late = monitor.check(at(80), waiting);
  ASSERT_EQ(late.overdue.size(), 1u);
  EXPECT_EQ(late.overdue[0].held, seconds(80));
  EXPECT_FALSE(late.hopeless);
  EXPECT_TRUE(monitor.check(at(90), waiting).overdue.empty()) << "once every warning time";
  EXPECT_EQ(monitor.check(at(160), waiting).overdue.size(), 1u);
}

TEST(StallMonitor, AsksAgainBeforeEveryWarning) {
  StallMonitor monitor(seconds(80), seconds(0));
  const std::vector<Waiting> waiting = {{"w", 1, {}}};
  for (int second = 0; second < 400; second += 10) {
    const bool half_way = second % 80 == 40;
    EXPECT_EQ(monitor.check(at(second), waiting).ask, half_way) << second;
  }
}

TEST(StallMonitor, GoesOnCountingWhenItsLimitsChange) {
  StallMonitor monitor(seconds(80), seconds(0));
  const std::vector<Waiting> waiting = {{"w", 1, {}}};
  monitor.check(at(0), waiting);
  monitor.set_limits(seconds(40), seconds(60));
  EXPECT_EQ(monitor.check(at(45), waiting).overdue.size(), 1u);
  EXPECT_TRUE(monitor.check(at(60), waiting).hopeless);
}

TEST(StallMonitor, ANewRoundOfANameBeginsANewWait) {
  StallMonitor monitor(seconds(80), seconds(0));
  monitor.check(at(0), std::vector<Waiting>{{"w", 1, {}}});
  EXPECT_TRUE(monitor.check(at(80), std::vector<Waiting>{{"w", 2, {}}}).overdue.empty());
}

TEST(StallMonitor, CountsTheTimeThatOthersHaveWaited) {
  StallMonitor monitor(seconds(80), seconds(0));
  EXPECT_EQ(monitor.check(at(100), std::vector<Waiting>{{"w", 1, seconds(85)}}).overdue.size(), 1u);
}

TEST(StallMonitor, GivesUpAtTheLimitEvenIfItNeverWarns) {
  StallMonitor monitor(seconds(0), seconds(80));
  const std::vector<Waiting> waiting = {{"w", 1, {}}};
  EXPECT_FALSE(monitor.check(at(0), waiting).hopeless);
  const StallFindings late = monitor.check(at(80), waiting);
  EXPECT_TRUE(late.overdue.empty());
  ASSERT_TRUE(late.hopeless);
  EXPECT_EQ(late.hopeless->name, "w");
}

// As a message may say; undefined-behaviour sanitizers watch.
TEST(StallMonitor, TakesLimitsAndWaitsOfCenturies) {
  constexpr Duration kCenturies{std::int64_t{1} << 60};
  StallMonitor monitor(kCenturies, kCenturies);
  std::size_t warnings = 0;
  for (int hour = 0; hour < 8; ++hour) {
    const StallFindings found =
        monitor.check(TimePoint{} + std::chrono::hours(hour), {{{"w", 1, 3 * kCenturies}}});
    warnings += found.overdue.size();
    EXPECT_TRUE(found.hopeless);
  }
  EXPECT_EQ(warnings, 1u);
}

TEST(StallMonitor, NeverLooksWhenBothTimesAreZero) {
  StallMonitor monitor(seconds(0), seconds(0));
  EXPECT_FALSE(monitor.next_check());
  EXPECT_FALSE(monitor.due(at(1000)));
}

}  // namespace
}  // namespace hvd
