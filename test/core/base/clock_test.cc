#include "core/base/clock.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

TimePoint at(std::int64_t us) {
  return TimePoint(microseconds(us));
}

// The other clock is `offset` ahead; the way there takes `there`, the way back `back`.
ClockSample sample(std::int64_t asked, std::int64_t offset, std::int64_t there, std::int64_t back) {
  return {at(asked), at(asked + there + offset), at(asked + there + back)};
}

TEST(ClockOffset, KnowsNothingBeforeTheFirstAnswer) {
  EXPECT_EQ(ClockOffset().at(at(0)), std::nullopt);
}

TEST(ClockOffset, IsExactWhenBothWaysTakeEquallyLong) {
  for (const std::int64_t offset : {-700'000, 0, 5, 1'000'000'000}) {
    ClockOffset clock;
    clock.add(sample(100, offset, 40, 40));
    EXPECT_EQ(clock.at(at(180)), (ClockEstimate{microseconds(offset), microseconds(40)}));
  }
}

TEST(ClockOffset, IsNeverFurtherOffThanItSays) {
  for (const std::int64_t there : {0, 10, 300}) {
    for (const std::int64_t back : {0, 10, 300}) {
      ClockOffset clock;
      clock.add(sample(0, 5000, there, back));
      const auto estimate = clock.at(at(there + back));
      EXPECT_LE(abs(estimate->offset - microseconds(5000)), estimate->error);
    }
  }
}

TEST(ClockOffset, TheFastestAnswerCounts) {
  ClockOffset clock;
  clock.add(sample(0, 1000, 500, 20));
  clock.add(sample(1000, 1000, 10, 10));
  clock.add(sample(2000, 1000, 20, 400));
  EXPECT_EQ(clock.at(at(1020))->offset, microseconds(1000));
}

TEST(ClockOffset, OldAnswersLoseTheirWorthAndThenTheirPlace) {
  ClockOffset clock;
  clock.add(sample(0, 1000, 10, 10));
  const TimePoint later = at(20) + seconds(100);
  EXPECT_EQ(clock.at(later)->error, microseconds(10 + 1500));  // 15 us per second
  const std::int64_t second = 100'000'000;
  clock.add(sample(second, 2000, 100, 100));
  EXPECT_EQ(clock.at(at(second + 200))->offset, microseconds(2000));
  for (std::size_t i = 0; i < ClockOffset::kSamples; ++i) clock.add(sample(0, 3000, 500, 500));
  EXPECT_TRUE(clock.full());
  EXPECT_EQ(clock.at(at(1000))->offset, microseconds(3000));
}

TEST(ClockOffset, AnAnswerBeforeItsQuestionIsIgnored) {
  ClockOffset clock;
  clock.add({at(10), at(5), at(9)});
  EXPECT_EQ(clock.at(at(10)), std::nullopt);
}

}  // namespace
}  // namespace hvd
