#include "core/negotiate/stall/stall_monitor.h"

#include <gtest/gtest.h>

namespace hvd::engine {
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

using Finding = ParentWatch::Finding;

TEST(ParentWatch, AsksAfterTheLimitAndGivesUpAQuarterLater) {
  ParentWatch watch(seconds(80));
  EXPECT_EQ(watch.check(at(5), true), Finding::kNone);
  EXPECT_EQ(watch.next_check(), at(85));
  EXPECT_EQ(watch.check(at(84), true), Finding::kNone);
  EXPECT_EQ(watch.check(at(85), true), Finding::kAsk);
  EXPECT_EQ(watch.next_check(), at(105));
  EXPECT_EQ(watch.check(at(104), true), Finding::kNone) << "once a wait";
  EXPECT_EQ(watch.check(at(105), true), Finding::kSilent);
}

TEST(ParentWatch, BeginsAnewWithEveryMessageAndEveryWait) {
  ParentWatch watch(seconds(80));
  EXPECT_EQ(watch.check(at(0), true), Finding::kNone);
  watch.heard();
  EXPECT_EQ(watch.check(at(80), true), Finding::kNone);
  EXPECT_EQ(watch.check(at(160), true), Finding::kAsk);
  watch.heard();
  EXPECT_EQ(watch.check(at(180), true), Finding::kNone) << "it answered";
  EXPECT_EQ(watch.check(at(200), false), Finding::kNone);
  EXPECT_EQ(watch.check(at(300), true), Finding::kNone) << "another wait";
  EXPECT_EQ(watch.check(at(379), true), Finding::kNone);
  EXPECT_EQ(watch.check(at(380), true), Finding::kAsk);
}

TEST(ParentWatch, ALateLookLeavesTheParentTimeToAnswer) {
  ParentWatch watch(seconds(80));
  watch.check(at(0), true);
  EXPECT_EQ(watch.check(at(1000), true), Finding::kAsk);
  EXPECT_EQ(watch.check(at(1019), true), Finding::kNone);
  EXPECT_EQ(watch.check(at(1020), true), Finding::kSilent);
}

TEST(ParentWatch, ZeroIsNever) {
  ParentWatch watch(seconds(0));
  watch.check(at(0), true);
  EXPECT_EQ(watch.check(at(1'000'000), true), Finding::kNone);
  EXPECT_FALSE(watch.next_check());
}

}  // namespace
}  // namespace hvd::engine
