// Process sets and joins, one case at a time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/core/negotiate/negotiate_builders.h"
#include "test/support/lock_step_cluster.h"

namespace hvd::engine {
namespace {

using test::gradient;
using test::LockStepCluster;
using test::Submitted;
using test::trees_of;
using testing::HasSubstr;

class ProtocolJoin : public testing::Test {
 protected:
  void submit(const std::vector<Rank>& ranks, const Request& request) {
    for (const Rank r : ranks) cluster_.submit(r, request);
    cluster_.settle(random_);
  }
  void join(const std::vector<Rank>& ranks, ProcessSetId set = kWorldSet) {
    for (const Rank r : ranks) cluster_.join(r, set);
    cluster_.settle(random_);
  }
  Submitted::Outcome outcome(Rank r) const { return cluster_.submitted(r).back().outcome; }

  static Request change(CollectiveKind kind, const std::string& name,
                        std::vector<std::int32_t> numbers) {
    Request request;
    request.name = name;
    request.kind = kind;
    request.numbers = std::move(numbers);
    return request;
  }
  ProcessSetId add_set(const std::string& name, const std::vector<Rank>& ranks) {
    submit({0, 1, 2, 3}, change(CollectiveKind::kAddSet, name, ranks));
    return cluster_.added(0, name).value();
  }
  static Request in(ProcessSetId set, Request request) {
    request.set = set;
    return request;
  }

  LockStepCluster cluster_{trees_of({0, 0, 1, 1}), {}};
  std::mt19937 random_{7};
};

TEST_F(ProtocolJoin, WhatWaitedForTheRankRunsWithoutIt) {
  submit({0, 1, 2}, gradient("w"));
  EXPECT_TRUE(cluster_.batches().empty());
  join({3});
  ASSERT_EQ(cluster_.batches().size(), 1u);
  EXPECT_EQ(cluster_.batches().at(0).batch.divisor, 3);
  EXPECT_EQ(cluster_.batches_run(3), 1u) << "it contributes the neutral element";
}

TEST_F(ProtocolJoin, MayKeepAveragesAsTheyAre) {
  cluster_.join(3, kWorldSet, true);
  submit({0, 1, 2}, gradient("w"));
  EXPECT_EQ(cluster_.batches().at(0).batch.divisor, 4);
}

TEST_F(ProtocolJoin, WaitsUntilNothingElseOfItsSetIsPending) {
  submit({3}, gradient("w"));
  join({3});
  submit({0, 1, 2}, gradient("v"));
  EXPECT_TRUE(cluster_.batches().empty()) << "rank 3 has not joined yet";
  submit({0, 1, 2}, gradient("w"));
  EXPECT_EQ(cluster_.batches().size(), 2u);
}

TEST_F(ProtocolJoin, EndsForAllWithTheSameLastRankAndEverybodyMaySubmitAgain) {
  join({2});
  join({0, 3});
  EXPECT_THROW(cluster_.rank(0).submit(9, gradient("w")), InvalidArgumentError);
  join({1});
  for (const Rank r : {0, 1, 2, 3}) EXPECT_EQ(outcome(r), Submitted::Outcome::kRan);
  submit({0, 1, 2, 3}, gradient("w"));
  EXPECT_EQ(cluster_.batches().at(0).batch.divisor, 4);
}

TEST_F(ProtocolJoin, OfAllRanksAtOnceEnds) {
  join({0, 1, 2, 3});
  for (const Rank r : {0, 1, 2, 3}) EXPECT_EQ(outcome(r), Submitted::Outcome::kRan);
}

TEST_F(ProtocolJoin, OfTheRootMakesItsBroadcastAnErrorOfThoseWhoSubmitted) {
  join({2});
  for (const auto kind : {CollectiveKind::kBroadcast, CollectiveKind::kReduce,
                          CollectiveKind::kGather, CollectiveKind::kScatter}) {
    Request request = gradient("b");
    request.kind = kind;
    request.root = 2;
    submit({0, 1, 3}, request);
    for (const Rank r : {0, 1, 3}) {
      ASSERT_EQ(outcome(r), Submitted::Outcome::kRejected);
      EXPECT_EQ(cluster_.submitted(r).back().why,
                Status(StatusCode::kMismatch, "'b': rank 2, the root of this " +
                                                  std::string(name_of(kind)) + ", has joined"));
    }
  }
  join({0, 1, 3});
  Request broadcast = gradient("b");
  broadcast.kind = CollectiveKind::kBroadcast;
  broadcast.root = 2;
  submit({0, 1, 2, 3}, broadcast);
  EXPECT_EQ(outcome(2), Submitted::Outcome::kRan);
}

TEST_F(ProtocolJoin, ConcernsItsProcessSetAlone) {
  const ProcessSetId set = add_set("add", {1, 3});
  join({3}, set);
  submit({1}, in(set, gradient("s")));
  EXPECT_EQ(cluster_.batches().at(0).batch.divisor, 1);
  submit({0, 1, 2, 3}, gradient("w"));
  EXPECT_EQ(cluster_.batches().at(1).batch.divisor, 4);
}

TEST_F(ProtocolJoin, OfARankThatHasJoinedAlreadyIsRefused) {
  join({3});
  EXPECT_THROW(cluster_.join(3), InvalidArgumentError);
}

TEST_F(ProtocolJoin, AMismatchAmongTheOthersDoesNotConcernIt) {
  join({3});
  submit({0, 1}, gradient("w"));
  submit({2}, gradient("w", 4, DType::kF64));
  for (const Rank r : {0, 1, 2}) EXPECT_EQ(outcome(r), Submitted::Outcome::kRejected);
  join({0, 1, 2});
  submit({0, 1, 2, 3}, gradient("w"));
  EXPECT_EQ(outcome(3), Submitted::Outcome::kRan) << "its own submission is not the rejected one";
}

TEST_F(ProtocolJoin, ARankMayJoinBeforeItEverSubmittedAnything) {
  join({0});
  for (int step = 0; step < 3; ++step) submit({1, 2, 3}, gradient("w"));
  EXPECT_EQ(cluster_.batches_run(0), 3u);
}

using ProtocolSets = ProtocolJoin;

TEST_F(ProtocolSets, AreNumberedInTheOrderOfTheLogOnEveryRank) {
  EXPECT_EQ(add_set("one", {0, 1}), 1u);
  EXPECT_EQ(add_set("two", {2}), 2u);
  for (const Rank r : {0, 1, 2, 3}) EXPECT_EQ(cluster_.added(r, "two"), 2u);
}

TEST_F(ProtocolSets, DefinitionsThatDifferAreAMismatchEverywhere) {
  submit({0, 1, 2}, change(CollectiveKind::kAddSet, "add", {0, 1}));
  submit({3}, change(CollectiveKind::kAddSet, "add", {0, 3}));
  for (const Rank r : {0, 1, 2, 3}) {
    ASSERT_EQ(outcome(r), Submitted::Outcome::kRejected);
    EXPECT_THAT(cluster_.submitted(r).back().why.message(),
                HasSubstr("ranks: [0, 1] on rank 0, [0, 3] on rank 3"));
  }
}

TEST_F(ProtocolSets, RunOnTheirMembersAlone) {
  const ProcessSetId set = add_set("add", {1, 3});
  submit({1, 3}, in(set, gradient("s")));
  EXPECT_EQ(cluster_.batches().at(0).batch.divisor, 2);
  EXPECT_EQ(cluster_.batches_run(0), 0u);
  EXPECT_EQ(cluster_.batches_run(1), 1u);
  submit({0, 1, 2, 3}, gradient("w"));
  EXPECT_EQ(cluster_.batches().at(1).batch.number, 1u) << "numbers count on all ranks alike";
}

TEST_F(ProtocolSets, HaveCreditOfTheirOwn) {
  const ProcessSetId set = add_set("add", {1, 3});
  cluster_.mute_finish(0);
  for (int i = 0; i < 10; ++i) submit({0, 1, 2, 3}, gradient("w" + std::to_string(i)));
  const std::size_t stuck = cluster_.batches().size();
  EXPECT_LT(stuck, 10u) << "rank 0 gives no credit of the world back";
  for (int i = 0; i < 10; ++i) submit({1, 3}, in(set, gradient("s" + std::to_string(i))));
  EXPECT_EQ(cluster_.batches().size(), stuck + 10);
}

TEST_F(ProtocolSets, GetTheirCreditBackFromTheirLowestRank) {
  const ProcessSetId set = add_set("add", {1, 3});
  cluster_.mute_finish(1);
  for (int i = 0; i < 10; ++i) submit({1, 3}, in(set, gradient("s" + std::to_string(i))));
  EXPECT_EQ(cluster_.batches().size(),
            static_cast<std::size_t>(NegotiationSettings{}.batches_in_flight));
}

TEST_F(ProtocolSets, RefuseWhoIsNotInThemAndWhatDoesNotExist) {
  const ProcessSetId set = add_set("add", {1, 3});
  EXPECT_THROW(cluster_.rank(0).submit(9, in(set, gradient("s"))), InvalidArgumentError);
  EXPECT_THROW(cluster_.rank(1).submit(9, in(7, gradient("s"))), InvalidArgumentError);
}

TEST_F(ProtocolSets, ANameBelongsToOneSet) {
  const ProcessSetId set = add_set("add", {1, 3});
  submit({0, 1, 2, 3}, gradient("w"));
  EXPECT_THROW(cluster_.rank(1).submit(9, in(set, gradient("w"))), InvalidArgumentError);
}

TEST_F(ProtocolSets, OnceRemovedTakeNothingMore) {
  const ProcessSetId set = add_set("add", {1, 3});
  const auto number = static_cast<std::int32_t>(set);
  submit({1}, change(CollectiveKind::kRemoveSet, "remove", {number}));
  EXPECT_THROW(cluster_.rank(1).submit(9, in(set, gradient("s"))), InvalidArgumentError);
  EXPECT_THROW(cluster_.rank(1).submit(9, change(CollectiveKind::kRemoveSet, "again", {number})),
               InvalidArgumentError);
  submit({0, 2, 3}, change(CollectiveKind::kRemoveSet, "remove", {number}));
  EXPECT_FALSE(cluster_.added(1, "add"));
  EXPECT_THROW(cluster_.rank(1).submit(9, in(set, gradient("s"))), InvalidArgumentError);
  EXPECT_EQ(add_set("next", {1, 3}), set + 1);
}

TEST_F(ProtocolSets, AreNotRemovedWhileSomethingIsPending) {
  const ProcessSetId set = add_set("add", {1, 3});
  const Request removal =
      change(CollectiveKind::kRemoveSet, "remove", {static_cast<std::int32_t>(set)});
  submit({1}, in(set, gradient("s")));
  EXPECT_THROW(cluster_.rank(1).submit(9, removal), InvalidArgumentError);
  submit({3}, in(set, gradient("s")));
  join({1}, set);
  EXPECT_THROW(cluster_.rank(1).submit(9, removal), InvalidArgumentError);
}

TEST_F(ProtocolSets, AreNotRemovedBehindTheBackOfARankThatHasJoined) {
  const ProcessSetId set = add_set("add", {1, 3});
  join({3});
  submit({0, 1, 2}, change(CollectiveKind::kRemoveSet, "remove", {static_cast<std::int32_t>(set)}));
  EXPECT_EQ(outcome(0), Submitted::Outcome::kRejected);
  submit({1, 3}, in(set, gradient("s")));
  EXPECT_EQ(outcome(3), Submitted::Outcome::kRan);
}

TEST_F(ProtocolSets, StayUsableWhenTheirRemovalIsRejected) {
  const auto one = static_cast<std::int32_t>(add_set("one", {1, 3}));
  const auto two = static_cast<std::int32_t>(add_set("two", {1, 2}));
  submit({0, 1, 2}, change(CollectiveKind::kRemoveSet, "remove", {one}));
  submit({3}, change(CollectiveKind::kRemoveSet, "remove", {two}));
  EXPECT_THAT(cluster_.submitted(0).back().why.message(),
              HasSubstr("process set to remove: [1] on rank 0, [2] on rank 3"));
  submit({1, 3}, in(static_cast<ProcessSetId>(one), gradient("s")));
  EXPECT_EQ(outcome(1), Submitted::Outcome::kRan);
}

}  // namespace
}  // namespace hvd::engine
