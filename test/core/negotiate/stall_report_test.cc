#include "core/negotiate/stall_diagnosis.h"

#include <gtest/gtest.h>

namespace hvd::engine {
namespace {

using std::chrono::seconds;

constexpr Duration kWakeDelay = seconds(15);

RankStatus answer(Rank rank, std::uint64_t ask) {
  RankStatus status;
  status.rank = rank;
  status.ask = ask;
  return status;
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

TEST(StallReport, HasColumns) {
  StallReport report;
  report.add({{0},
              "waiting in 'accuracy' (allreduce) for rank 1",
              "m.py:63 in evaluate",
              "submission 27"});
  report.add({{1}, "does not answer", "", ""});
  report.add({{2}, "waiting in 'w' for rank 1", "m.py:8", "submission 9"});
  report.advice = "read the manual";
  EXPECT_EQ(report.body(),
            "\n  rank 0  waiting in 'accuracy' (allreduce) for rank 1  at m.py:63 in evaluate  "
            "(submission 27)"
            "\n  rank 1  does not answer"
            "\n  rank 2  waiting in 'w' for rank 1                     at m.py:8               "
            "(submission 9)"
            "\n  -> read the manual");
}

TEST(StallReport, SaysTheSameOfSeveralRanksOnce) {
  StallReport report;
  for (const Rank rank : {0, 1, 2, 5}) report.add({{rank}, "is late", "", "submission 3"});
  report.add({{6}, "is late", "", "submission 4"});
  EXPECT_EQ(report.body(),
            "\n  ranks 0 to 2 and 5  is late  (submission 3)"
            "\n  rank 6              is late  (submission 4)");
}

TEST(StallReport, CountsWhatIsTooMuchToRead) {
  StallReport report;
  for (Rank rank = 0; rank < 100; ++rank)
    report.add({{rank}, "did " + std::to_string(rank), "", ""});
  const std::string body = report.body();
  EXPECT_NE(body.find("did 15"), std::string::npos);
  EXPECT_EQ(body.find("did 16"), std::string::npos);
  EXPECT_TRUE(body.ends_with("\n  and 84 more lines about other ranks")) << body;
}

}  // namespace
}  // namespace hvd::engine
