#include "core/negotiate/stall/parent_watch.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

using std::chrono::seconds;
using Finding = ParentWatch::Finding;

TimePoint at(int second) {
  return TimePoint{} + seconds(second);
}

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
}  // namespace hvd
