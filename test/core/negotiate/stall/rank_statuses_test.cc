#include "core/negotiate/stall/rank_statuses.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

using std::chrono::seconds;

constexpr Duration kWakeDelay = seconds(15);

RankStatus answer(Rank rank, std::uint64_t ask) {
  RankStatus sighting;
  sighting.rank = rank;
  sighting.ask = ask;
  return sighting;
}

TEST(RankStatuses, WhoWasNeverAskedIsNotSilent) {
  const RankStatuses rank_statuses;
  EXPECT_FALSE(rank_statuses.silent(2, TimePoint{} + seconds(100), kWakeDelay));
  EXPECT_EQ(rank_statuses.find(2), nullptr);
}

TEST(RankStatuses, SilentIsWhoLeftAQuestionOpenForTooLong) {
  RankStatuses rank_statuses;
  rank_statuses.asked(TimePoint{} + seconds(30));
  EXPECT_FALSE(rank_statuses.silent(2, TimePoint{} + seconds(44), kWakeDelay));
  EXPECT_TRUE(rank_statuses.silent(2, TimePoint{} + seconds(45), kWakeDelay));
  rank_statuses.take(answer(2, 1));
  EXPECT_FALSE(rank_statuses.silent(2, TimePoint{} + seconds(100), kWakeDelay));
  ASSERT_NE(rank_statuses.find(2), nullptr);
}

TEST(RankStatuses, AFreshQuestionBlamesNobody) {
  RankStatuses rank_statuses;
  rank_statuses.asked(TimePoint{} + seconds(30));
  rank_statuses.take(answer(2, 1));
  rank_statuses.asked(TimePoint{} + seconds(59));
  EXPECT_FALSE(rank_statuses.silent(2, TimePoint{} + seconds(60), kWakeDelay));
  EXPECT_TRUE(rank_statuses.silent(2, TimePoint{} + seconds(74), kWakeDelay));
}

TEST(RankStatuses, QuestionsInQuickSuccessionDoNotExcuseSilence) {
  RankStatuses rank_statuses;
  for (int second = 0; second < 100; second += 20)
    rank_statuses.asked(TimePoint{} + seconds(second));
  EXPECT_TRUE(rank_statuses.silent(2, TimePoint{} + seconds(90), kWakeDelay));
}

}  // namespace
}  // namespace hvd
