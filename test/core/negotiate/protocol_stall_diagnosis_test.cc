// What the report of a stall says about each missing rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/core/negotiate/negotiate_builders.h"
#include "test/core/negotiate/stall_fixture.h"

namespace hvd::engine {
namespace {

using std::chrono::seconds;
using test::gradient;
using test::LockStepCluster;
using test::trees_of;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class StallDiagnosisTest : public test::StallTest {
 protected:
  void submit(LockStepCluster& cluster, const std::vector<Rank>& ranks, const Request& request) {
    for (const Rank r : ranks) cluster.submit(r, request);
    cluster.settle(random_);
  }
  ProcessSetId add_set(LockStepCluster& cluster, const std::vector<Rank>& ranks) {
    Request request;
    request.name = "add";
    request.kind = CollectiveKind::kAddSet;
    request.numbers = ranks;
    for (Rank r = 0; r < cluster.size(); ++r) cluster.submit(r, request);
    cluster.settle(random_);
    return cluster.added(0, "add").value();
  }
};

TEST_F(StallDiagnosisTest, SlowIsWhoAnswersAndWaitsForNothing) {
  LockStepCluster cluster(trees_of({0, 0, 1}), settings());
  cluster.set_where(2, "train.py:12");
  submit(cluster, {0, 1, 2}, gradient("before"));
  submit(cluster, {0, 1}, gradient("w"));
  wait(cluster, 70);
  ASSERT_EQ(cluster.reports(0).size(), 1u);
  EXPECT_THAT(
      cluster.reports(0)[0],
      AllOf(HasSubstr(" s: rank 2 is late\n  ranks 0 and 1  waiting in 'w' for rank 2"),
            HasSubstr("\n  rank 2         busy outside the engine; last submitted "
                      "'before'  at train.py:12  (submission 1)\n  -> a slow step, a call")));
}

TEST_F(StallDiagnosisTest, WentADifferentWayIsWhoWaitsForWhatOthersDidNotSubmit) {
  LockStepCluster cluster(trees_of({0, 0, 1}), settings());
  submit(cluster, {0, 1}, gradient("model/w"));
  submit(cluster, {2}, gradient("model_1/w"));
  wait(cluster, 70);
  EXPECT_THAT(cluster.reports(0),
              testing::Contains(HasSubstr("ranks went different ways\n  ranks 0 and 1  waiting in "
                                          "'model/w' for rank 2           (submission 1)\n  rank 2 "
                                          "        waiting in 'model_1/w' for ranks 0 and 1")));
}

TEST_F(StallDiagnosisTest, WhoDoesNotAnswerIsStoppedOrGone) {
  LockStepCluster cluster(trees_of({0, 0, 1}), settings());
  submit(cluster, {0, 1}, gradient("w"));
  cluster.mute(2);
  wait(cluster, 70);
  ASSERT_EQ(cluster.reports(0).size(), 1u);
  EXPECT_THAT(cluster.reports(0)[0], AllOf(HasSubstr(" s: rank 2 does not answer\n"),
                                           HasSubstr("\n  rank 2         no answer: stopped")));
}

TEST_F(StallDiagnosisTest, WhoIsReachedThroughASilentRankIsNotBlamed) {
  LockStepCluster cluster(trees_of({0, 0, 0, 2}), settings());
  submit(cluster, {0, 1}, gradient("w"));
  cluster.mute(2);
  wait(cluster, 70);
  ASSERT_EQ(cluster.reports(0).size(), 1u);
  EXPECT_THAT(cluster.reports(0)[0],
              AllOf(HasSubstr(" s: rank 2 does not answer\n"),
                    HasSubstr("\n  rank 2         no answer: stopped"),
                    HasSubstr("\n  rank 3         cannot be asked: reached through rank 2")));
}

TEST_F(StallDiagnosisTest, AnotherStallDoesNotMakeThoseSilentWhoAnswered) {
  LockStepCluster cluster(trees_of({0, 0, 0}), settings());
  submit(cluster, {0}, gradient("w"));
  wait(cluster, 28);
  submit(cluster, {0}, gradient("v"));
  wait(cluster, 200);
  EXPECT_THAT(cluster.reports(0), AllOf(Not(IsEmpty()), Each(Not(HasSubstr("does not answer")))));
}

TEST_F(StallDiagnosisTest, JoinedIsWhoWaitsInJoinOfAnotherSet) {
  LockStepCluster cluster(trees_of({0, 0, 1}), settings());
  const ProcessSetId set = add_set(cluster, {0, 2});
  cluster.join(2);
  Request request = gradient("w");
  request.set = set;
  submit(cluster, {0}, request);
  wait(cluster, 70);
  ASSERT_FALSE(cluster.reports(0).empty());
  EXPECT_THAT(cluster.reports(0)[0],
              AllOf(HasSubstr("s: rank 2 waits in join()\n  rank 0  waiting in 'w' for rank 2"),
                    HasSubstr("\n  rank 2  joined the world; last submitted")));
}

TEST_F(StallDiagnosisTest, AJoinThatWaitsForASubmissionSaysWhichOne) {
  LockStepCluster cluster(trees_of({0, 0, 1}), settings());
  submit(cluster, {2}, gradient("v"));
  cluster.join(2);
  submit(cluster, {0, 1}, gradient("w"));
  wait(cluster, 70);
  EXPECT_THAT(cluster.reports(0),
              testing::Contains(
                  HasSubstr("rank 2         in join(), but waiting in 'v' for ranks 0 and 1")));
}

TEST_F(StallDiagnosisTest, WhoHasJoinedIsNotMissing) {
  LockStepCluster cluster(trees_of({0, 0, 0, 2}), settings());
  cluster.join(3);
  submit(cluster, {0, 1}, gradient("w"));
  wait(cluster, 70);
  ASSERT_FALSE(cluster.reports(0).empty());
  EXPECT_THAT(cluster.reports(0)[0], AllOf(HasSubstr("ranks 0 and 1  waiting in 'w' for rank 2"),
                                           HasSubstr("rank 2 is late"), Not(HasSubstr("rank 3"))));
}

// What a node said about missing ranks before a join does not count any more: it says so again.
TEST_F(StallDiagnosisTest, NamesMissingRanksExactlyAfterAJoinElsewhere) {
  using Kind = LockStepCluster::Event::Kind;
  LockStepCluster cluster(trees_of({0, 0, 1, 1, 0}), settings());
  submit(cluster, {0, 1, 2}, gradient("w"));
  for (int second = 0; second < 26; ++second) cluster.advance(seconds(1));
  ASSERT_FALSE(cluster.link(1, 0).empty()) << "rank 1 says that rank 3 is missing";
  cluster.join(4);
  cluster.perform({Kind::kDeliver, 4, 0});
  cluster.settle(random_);
  wait(cluster, 60);
  ASSERT_FALSE(cluster.reports(0).empty());
  EXPECT_THAT(cluster.reports(0)[0],
              AllOf(HasSubstr("rank 3 is late\n  ranks 0 to 2  waiting in 'w' for rank 3 ")));
}

TEST_F(StallDiagnosisTest, AJoinThatNobodyFollowsIsReportedAndGivenUp) {
  LockStepCluster cluster(trees_of({0, 0, 1}), settings(seconds(600)));
  cluster.join(1);
  wait(cluster, 70);
  ASSERT_EQ(cluster.reports(0).size(), 1u);
  EXPECT_THAT(
      cluster.reports(0)[0],
      AllOf(HasSubstr("join() of the world was called by 1 of 3 ranks and nothing ran there "
                      "since: ranks 0 and 2 are late"),
            HasSubstr("\n  ranks 0 and 2  busy outside the engine; nothing submitted")));
  wait(cluster, 550);
  ASSERT_TRUE(cluster.stopped(1));
  EXPECT_EQ(cluster.stopped(1)->why.code(), StatusCode::kStalled);
}

TEST_F(StallDiagnosisTest, AJoinMayWaitAsLongAsTheOthersRunSomething) {
  LockStepCluster cluster(trees_of({0, 0, 1}), settings(seconds(600)));
  cluster.join(1);
  for (int step = 0; step < 100; ++step) {
    submit(cluster, {0, 2}, gradient("w"));
    wait(cluster, 20);
  }
  EXPECT_THAT(cluster.reports(0), IsEmpty());
  EXPECT_FALSE(cluster.stopped(0));
}

TEST_F(StallDiagnosisTest, WaitsForRankZeroThatItAnnouncedAreNeitherReportedNorGivenUp) {
  LockStepCluster cluster(trees_of({0, 0, 1}), settings(seconds(600)));
  cluster.rank(0).expect_wait_for_root(cluster.now() + seconds(1000));
  submit(cluster, {1, 2}, gradient("w"));
  wait(cluster, 900);
  EXPECT_THAT(cluster.reports(0), IsEmpty());
  EXPECT_FALSE(cluster.stopped(0));
  cluster.rank(0).expect_wait_for_root(cluster.now());
  wait(cluster, 50);
  EXPECT_THAT(cluster.reports(0), IsEmpty()) << "the time before does not count";
  wait(cluster, 40);
  EXPECT_THAT(cluster.reports(0), AllOf(Not(IsEmpty()), Each(HasSubstr("rank 0 is late"))));
  wait(cluster, 600);
  EXPECT_TRUE(cluster.stopped(0));
}

TEST_F(StallDiagnosisTest, OthersAreBlamedWhileRankZeroIsExpectedToBeLate) {
  LockStepCluster cluster(trees_of({0, 0, 1}), settings(seconds(600)));
  cluster.rank(0).expect_wait_for_root(cluster.now() + seconds(1000));
  submit(cluster, {1}, gradient("w"));
  wait(cluster, 70);
  ASSERT_EQ(cluster.reports(0).size(), 1u);
  EXPECT_THAT(cluster.reports(0)[0],
              AllOf(HasSubstr("rank 2 is late"),
                    HasSubstr("rank 0  said that others would have to wait for it\n"),
                    HasSubstr("rank 2  busy outside the engine")));
}

TEST_F(StallDiagnosisTest, OnlyRankZeroMayBeExpected) {
  LockStepCluster cluster(trees_of({0, 0}), settings());
  EXPECT_THROW(cluster.rank(1).expect_wait_for_root(cluster.now()), InvalidArgumentError);
}

}  // namespace
}  // namespace hvd::engine
