#include "core/negotiate/stall_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/core/negotiate/negotiate_builders.h"
#include "test/support/lock_step_cluster.h"

namespace hvd::engine {
namespace {

using std::chrono::seconds;
using test::gradient;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TimePoint at(int second) {
  return TimePoint{} + seconds(second);
}

// One node of a tree in which ranks 1 and 2 report to 0, and 3 to 1.
struct Node {
  explicit Node(Rank rank) : tree(test::trees_of({0, 0, 0, 1})[static_cast<std::size_t>(rank)]) {}

  void announce(const std::string& name) {
    tracker.add(Variants{{gradient(name), tree.rank, 1}}, ReadinessTracker::kSelf, 0, complete);
  }
  // A batch of `name` runs, if there is one.
  StallWatch::Findings tick(int second, const std::string& name = "") {
    std::vector<RunningBatch> batches;
    if (!name.empty()) {
      batches.push_back({0, kWorldSet, DeviceKind::kCpu, test::shared(gradient(name))});
    }
    return watch.tick(at(second), {.batches = batches, .waits = waits}, absences);
  }

  Tree tree;
  ResponseCache cache;
  ProcessSets sets{4};
  ReadinessTracker tracker{tree, cache, sets};
  NegotiationSettings settings{.stall_warning = seconds(60), .stall_limit = seconds(120)};
  StallWatch watch{tree, tracker, sets, settings};
  Announcement complete;
  std::vector<MissingRanks> absences;
  bool waits = false;
};

TEST(StallWatch, TellsUpwardsOnceWhoIsMissing) {
  Node node(1);
  node.announce("w");
  EXPECT_TRUE(node.watch.next_deadline({}));
  for (const int second : {0, 10}) node.tick(second);
  EXPECT_THAT(node.absences, IsEmpty());
  for (const int second : {20, 30, 40}) node.tick(second);
  ASSERT_EQ(node.absences.size(), 1u);
  EXPECT_EQ(node.absences[0].name, "w");
  EXPECT_THAT(node.absences[0].missing, ElementsAre(3));
  node.watch.joined(kWorldSet);  // what was told before does not count
  node.tick(50);
  EXPECT_EQ(node.absences.size(), 2u);
}

TEST(StallWatch, AsksThenReportsThenGivesUp) {
  Node node(0);
  node.announce("w");
  node.tick(0);
  EXPECT_TRUE(node.tick(31).ask);
  node.watch.diagnosis().asked();
  const StallWatch::Findings late = node.tick(61);
  ASSERT_EQ(late.reports.size(), 1u);
  EXPECT_THAT(late.reports[0], HasSubstr("stalled for 61 s: ranks 1 and 2 do not answer"));
  EXPECT_FALSE(late.hopeless);
  const StallWatch::Findings over = node.tick(121);
  ASSERT_TRUE(over.hopeless);
  EXPECT_EQ(over.hopeless->code(), StatusCode::kStalled);
  EXPECT_THAT(node.absences, IsEmpty());
}

TEST(StallWatch, WatchesBatchesOnRankZeroOnly) {
  for (const Rank rank : {0, 2}) {
    Node node(rank);
    node.tick(0, "w");
    const std::string reports = testing::PrintToString(node.tick(61, "w").reports);
    EXPECT_THAT(reports, rank == 0 ? testing::Matcher<std::string>(HasSubstr("does not end"))
                                   : testing::Matcher<std::string>("{}"));
  }
}

TEST(StallWatch, GivesUpASilentParentWhileItWaits) {
  Node node(3);
  EXPECT_FALSE(node.watch.next_deadline({.batches = {}, .waits = false}));
  node.waits = true;
  EXPECT_FALSE(node.tick(0).probe);
  EXPECT_TRUE(node.tick(120).probe);
  node.watch.heard_parent();
  EXPECT_FALSE(node.tick(150).parent_silent);
  EXPECT_TRUE(node.tick(270).probe);
  const auto silent = node.tick(300).parent_silent;
  ASSERT_TRUE(silent);
  EXPECT_THAT(silent->message(), HasSubstr("rank 1, through which rank 0 is heard"));
}

TEST(StallDiagnosis, SaysWhatEachMissingRankDoes) {
  Node node(0);
  node.announce("w");
  StallDiagnosis& diagnosis = node.watch.diagnosis();
  diagnosis.tick(at(0));
  diagnosis.asked();
  RankStatus status;
  status.rank = 1;
  status.ask = 1;
  status.where = "train.py:12";
  diagnosis.take(status);
  diagnosis.tick(at(100));
  const std::string body = diagnosis.of_names({{"w", 1, seconds(60)}}).body();
  EXPECT_THAT(body, HasSubstr("busy outside the engine; nothing submitted yet"));
  EXPECT_THAT(body, HasSubstr("train.py:12"));
  EXPECT_THAT(body, HasSubstr("no answer: stopped or gone"));
}

TEST(StallDiagnosis, BlamesNobodyForAnExpectedWaitForRankZero) {
  Node node(1);
  StallDiagnosis diagnosis(node.tree, node.tracker, node.sets, node.settings);
  diagnosis.expect_wait_for_root(at(50));
  diagnosis.tick(at(10));
  EXPECT_TRUE(diagnosis.expects_root());
  diagnosis.tick(at(60));
  EXPECT_FALSE(diagnosis.expects_root());
}

}  // namespace
}  // namespace hvd::engine
