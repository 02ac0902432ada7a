#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/core/negotiate/negotiate_builders.h"
#include "test/core/negotiate/stall_fixture.h"

namespace hvd::engine {
namespace {

using std::chrono::seconds;
using test::gradient;
using test::LockStepCluster;
using test::trees_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

class ProtocolStall : public test::StallTest {};

TEST_F(ProtocolStall, TheReportNamesTensorMissingRanksSecondsAndTheirLastSubmission) {
  LockStepCluster cluster(trees_of({0, 0, 1, 1}), settings(seconds(0)));
  for (const Rank r : {0, 1, 2}) cluster.submit(r, gradient("w"));
  cluster.submit(3, gradient("another"));
  wait(cluster, 59);
  EXPECT_THAT(cluster.reports(0), IsEmpty());
  wait(cluster, 20);
  ASSERT_EQ(cluster.reports(0).size(), 1u);
  EXPECT_THAT(
      cluster.reports(0)[0],
      MatchesRegex("stalled for 6[0-9.]+ s: ranks went different ways\n"
                   "  ranks 0 to 2  waiting in 'w' for rank 3 +\\(submission 1\\)\n"
                   "  rank 3        waiting in 'another' for ranks 0 to 2  "
                   "\\(submission 1\\)\n"
                   "  -> is one of these calls behind `if rank\\(\\) == 0`, .*different numbers of "
                   "batches \\(see join\\(\\), for Keras JoinCallback\\)\\? see docs/hangs.md.*"));
  EXPECT_THAT(cluster.reports(1), IsEmpty());
  EXPECT_FALSE(cluster.stopped(0));
  cluster.submit(3, gradient("w"));
  cluster.settle(random_);
  EXPECT_EQ(cluster.batches().size(), 1u);
}

TEST_F(ProtocolStall, AReportIsRepeatedOnlyAfterAnotherWarningTime) {
  LockStepCluster cluster(trees_of({0, 0}), settings(seconds(0)));
  cluster.submit(0, gradient("w"));
  wait(cluster, 115);
  EXPECT_EQ(cluster.reports(0).size(), 1u);
  wait(cluster, 20);
  ASSERT_EQ(cluster.reports(0).size(), 2u);
  EXPECT_THAT(cluster.reports(0)[0], HasSubstr("\n  rank 0  waiting in 'w' for rank 1"));
  EXPECT_THAT(cluster.reports(0)[1],
              MatchesRegex("stalled for 12[0-9.]+ s: rank 1 is late \\(no rank has moved since the "
                           "last report\\)"));
}

TEST_F(ProtocolStall, ASilentRankIsSaidToBeSilent) {
  LockStepCluster cluster(trees_of({0, 0, 0}), settings(seconds(0)));
  cluster.submit(0, gradient("w"));
  cluster.submit(1, gradient("w"));
  cluster.settle(random_);
  cluster.mute(2);
  wait(cluster, 70);
  ASSERT_EQ(cluster.reports(0).size(), 1u);
  EXPECT_THAT(cluster.reports(0)[0], HasSubstr("\n  rank 2         no answer: stopped or gone"));
}

TEST_F(ProtocolStall, PastTheLimitEveryRankStopsWithTensorAndMissingRanks) {
  LockStepCluster cluster(trees_of({0, 0, 1, 1}), settings(seconds(600)));
  for (const Rank r : {0, 1, 2}) cluster.submit(r, gradient("w"));
  wait(cluster, 590);
  EXPECT_FALSE(cluster.stopped(0));
  wait(cluster, 30);
  for (Rank r = 0; r < 4; ++r) {
    ASSERT_TRUE(cluster.stopped(r));
    EXPECT_EQ(cluster.stopped(r)->why.code(), StatusCode::kStalled);
    EXPECT_THAT(cluster.stopped(r)->why.message(),
                AllOf(HasSubstr("giving up after 6"), HasSubstr("rank 3 is late"),
                      HasSubstr("ranks 0 to 2  waiting in 'w' for rank 3")));
  }
}

TEST_F(ProtocolStall, ABatchThatDoesNotEndIsBlamedOnWhoDoesNotAnswer) {
  LockStepCluster cluster(trees_of({0, 0, 0}), settings(seconds(600)));
  for (Rank r = 0; r < 3; ++r) cluster.submit(r, gradient("w"));
  while (cluster.batches_run(0) == 0) cluster.perform(cluster.events().front());
  cluster.mute(2);
  cluster.mute_finish(0);
  wait(cluster, 70);
  ASSERT_EQ(cluster.reports(0).size(), 1u);
  EXPECT_THAT(
      cluster.reports(0)[0],
      AllOf(HasSubstr("stalled for 6"), HasSubstr("the batch of 'w' does not end, and rank 2"),
            HasSubstr("\n  rank 2  no answer"), Not(HasSubstr("rank 1"))));
  wait(cluster, 620);
  ASSERT_TRUE(cluster.stopped(1));
  EXPECT_EQ(cluster.stopped(1)->why.code(), StatusCode::kStalled);
}

TEST_F(ProtocolStall, StepsThatEndInTimeAreNeverReported) {
  LockStepCluster cluster(trees_of({0, 0, 1, 1}), settings(seconds(600)));
  for (int step = 0; step < 200; ++step) {
    cluster.submit(0, gradient("w"));
    wait(cluster, 7);
    for (const Rank r : {1, 2, 3}) cluster.submit(r, gradient("w"));
    cluster.settle(random_);
  }
  EXPECT_EQ(cluster.batches_run(0), 200u);
  EXPECT_THAT(cluster.reports(0), IsEmpty());
}

TEST_F(ProtocolStall, ASilentRank0IsGivenUpByThoseWhoWaitForIt) {
  LockStepCluster cluster(trees_of({0, 0, 1, 1}), settings(seconds(600)));
  cluster.mute(0);
  cluster.submit(1, gradient("w"));
  wait(cluster, 740);
  EXPECT_FALSE(cluster.stopped(1));
  wait(cluster, 20);
  for (const Rank r : {1, 2, 3}) {  // 2 and 3 do not wait for anything
    ASSERT_TRUE(cluster.stopped(r)) << r;
    EXPECT_EQ(cluster.stopped(r)->why.code(), StatusCode::kStalled);
    EXPECT_THAT(cluster.stopped(r)->why.message(),
                AllOf(HasSubstr("rank 0, which decides for all, has sent rank 1 nothing for 600 s"),
                      HasSubstr("does not answer")));
  }
}

TEST_F(ProtocolStall, ASilentRank0IsGivenUpWhileABatchRuns) {
  LockStepCluster cluster(trees_of({0, 0, 0}), settings(seconds(600)));
  cluster.mute_finish(1);
  for (Rank r = 0; r < 3; ++r) cluster.submit(r, gradient("w"));
  cluster.settle(random_);
  ASSERT_EQ(cluster.batches_run(1), 1u);
  cluster.mute(0);
  wait(cluster, 740);
  EXPECT_FALSE(cluster.stopped(1));
  wait(cluster, 20);
  for (const Rank r : {1, 2}) {
    ASSERT_TRUE(cluster.stopped(r)) << r;
    EXPECT_THAT(cluster.stopped(r)->why.message(), HasSubstr("rank 0, which decides"));
  }
}

TEST_F(ProtocolStall, ASilentParentIsGivenUpOnAllRanks) {
  LockStepCluster cluster(trees_of({0, 0, 1, 1}), settings(seconds(600)));
  cluster.mute(1);
  cluster.submit(2, gradient("w"));
  wait(cluster, 760);
  for (const Rank r : {0, 2, 3}) {
    ASSERT_TRUE(cluster.stopped(r)) << r;
    EXPECT_EQ(cluster.stopped(r)->why.code(), StatusCode::kStalled);
    EXPECT_THAT(cluster.stopped(r)->why.message(),
                HasSubstr("rank 1, through which rank 0 is heard, has sent rank 2 nothing"));
  }
}

TEST_F(ProtocolStall, ARank0ThatAnswersIsWaitedForHoweverLongItSaid) {
  LockStepCluster cluster(trees_of({0, 0, 1, 1}), settings(seconds(60)));
  cluster.rank(0).expect_wait_for_root(cluster.now() + seconds(2000));
  for (const Rank r : {1, 2, 3}) cluster.submit(r, gradient("w"));
  wait(cluster, 1900);
  for (Rank r = 0; r < 4; ++r) EXPECT_FALSE(cluster.stopped(r)) << r;
  cluster.submit(0, gradient("w"));
  cluster.settle(random_);
  EXPECT_EQ(cluster.batches_run(3), 1u);
  EXPECT_FALSE(cluster.rank(3).next_deadline());
}

TEST_F(ProtocolStall, ThereIsADeadlineOnlyWhileSomethingWaits) {
  LockStepCluster cluster(trees_of({0, 0}), settings(seconds(600)));
  cluster.settle(random_);
  EXPECT_FALSE(cluster.rank(0).next_deadline());
  cluster.submit(0, gradient("w"));
  EXPECT_TRUE(cluster.rank(0).next_deadline());
  cluster.submit(1, gradient("w"));
  cluster.settle(random_);
  EXPECT_FALSE(cluster.rank(0).next_deadline());
}

}  // namespace
}  // namespace hvd::engine
