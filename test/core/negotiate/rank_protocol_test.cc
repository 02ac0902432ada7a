#include "core/negotiate/rank_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/negotiate/decision.h"
#include "core/negotiate/message.h"
#include "test/core/negotiate/negotiate_builders.h"
#include "test/support/lock_step_cluster.h"

namespace hvd {
namespace {

using test::gradient;
using test::LockStepCluster;
using test::Submitted;
using test::trees_of;
using testing::HasSubstr;

class RankProtocolTest : public testing::Test {
 protected:
  void submit_everywhere(LockStepCluster& cluster, const Request& request) {
    for (Rank r = 0; r < cluster.size(); ++r) cluster.submit(r, request);
  }
  std::mt19937 random_{7};
};

TEST_F(RankProtocolTest, ANameRunsOnceEveryRankSubmittedIt) {
  LockStepCluster cluster(trees_of({0, 0, 0, 1}), {});
  for (Rank r = 0; r < 3; ++r) cluster.submit(r, gradient("w"));
  cluster.settle(random_);
  EXPECT_TRUE(cluster.batches().empty());
  cluster.submit(3, gradient("w"));
  cluster.settle(random_);
  ASSERT_EQ(cluster.batches().size(), 1u);
  EXPECT_EQ(cluster.batches()[0].batch.divisor, 4);
  for (Rank r = 0; r < 4; ++r) EXPECT_EQ(cluster.batches_run(r), 1u);
}

TEST_F(RankProtocolTest, AKnownNameCostsOneSmallIntegerEachWay) {
  LockStepCluster cluster(trees_of({0, 0}), {});
  submit_everywhere(cluster, gradient("a name that is long enough to be seen in a message"));
  cluster.settle(random_);
  const std::size_t up = cluster.bytes_sent(1);
  const std::size_t down = cluster.bytes_sent(0);
  submit_everywhere(cluster, gradient("a name that is long enough to be seen in a message"));
  cluster.settle(random_);
  EXPECT_EQ(cluster.batches().size(), 2u);
  EXPECT_LT(cluster.bytes_sent(1) - up, 50u);
  EXPECT_LT(cluster.bytes_sent(0) - down, 50u);
}

TEST_F(RankProtocolTest, AMismatchIsRejectedEverywhereAndTheJobGoesOn) {
  LockStepCluster cluster(trees_of({0, 0, 0, 1}), {});
  for (Rank r = 0; r < 4; ++r) {
    cluster.submit(r, gradient("w", 4, r == 2 ? DType::kF64 : DType::kF32));
  }
  cluster.settle(random_);
  for (Rank r = 0; r < 4; ++r) {
    const Submitted& submitted = cluster.submitted(r).at(0);
    ASSERT_EQ(submitted.outcome, Submitted::Outcome::kRejected);
    EXPECT_EQ(submitted.why.code(), StatusCode::kMismatch);
    EXPECT_THAT(submitted.why.message(),
                HasSubstr("\"w\": ranks disagree about its dtype: float32 on rank 0, float64 on "
                          "rank 2"));
  }
  submit_everywhere(cluster, gradient("w"));
  cluster.settle(random_);
  EXPECT_EQ(cluster.batches().size(), 1u);
}

TEST_F(RankProtocolTest, LeavingStopsEveryRankWithTheNameOfWhoLeft) {
  LockStepCluster cluster(trees_of({0, 0, 1}), {});
  cluster.submit(0, gradient("w"));
  cluster.leave(2);
  cluster.settle(random_);
  for (Rank r = 0; r < 3; ++r) {
    ASSERT_TRUE(cluster.stopped(r));
    EXPECT_TRUE(cluster.stopped(r)->orderly);
    EXPECT_EQ(cluster.stopped(r)->why, Status(StatusCode::kAborted, "rank 2 left the job"));
    EXPECT_TRUE(cluster.rank(r).finished_leaving());
  }
}

TEST_F(RankProtocolTest, AFailureStopsEveryRankWithItsReason) {
  LockStepCluster cluster(trees_of({0, 0, 1}), {});
  cluster.rank(2).fail({StatusCode::kInternal, "no memory"});
  cluster.flush(2);
  cluster.settle(random_);
  for (Rank r = 0; r < 3; ++r) {
    ASSERT_TRUE(cluster.stopped(r));
    EXPECT_EQ(cluster.stopped(r)->why, Status(StatusCode::kInternal, "no memory"));
    EXPECT_FALSE(cluster.stopped(r)->orderly);
    EXPECT_TRUE(cluster.rank(r).finished_leaving());
  }
}

Bytes message_of(const Decision& decision, std::uint32_t epoch = 0) {
  Bytes bytes;
  ByteWriter out(bytes);
  write(out, MessageHeader{MessageKind::kDecision, epoch});
  write(out, decision);
  return bytes;
}

TEST_F(RankProtocolTest, AFailureReachesThoseBelowARankThatDoesNotAnswer) {
  LockStepCluster cluster(trees_of({0, 0, 1}), {});
  cluster.settle(random_);
  cluster.mute(1);
  cluster.rank(0).fail({StatusCode::kInternal, "no memory"});
  cluster.flush(0);
  cluster.settle(random_);
  ASSERT_TRUE(cluster.stopped(2));
  EXPECT_EQ(cluster.stopped(2)->why.message(), "no memory");
}

// Its receivers drop what was announced before an eviction was applied.
TEST_F(RankProtocolTest, WhatWasReadyBeforeADecisionIsSentUnderTheNumberBeforeIt) {
  RankProtocol rank(trees_of({0, 0})[1], {});
  const auto next_announcement = [&] {
    const Bytes bytes = rank.next_message().value().bytes;
    ByteReader in(bytes);
    read_header(in);
    Announcement announcement;
    read_announcement(in, announcement);
    return announcement;
  };
  Decision decision;
  decision.number = 1;
  decision.steps = {DefineSlot{0, gradient("w"), false}};
  rank.receive(0, message_of(decision));
  rank.submit(5, gradient("w"));
  decision.number = 2;
  decision.steps = {EvictSlot{0}};
  rank.receive(0, message_of(decision));
  const Announcement before = next_announcement();
  EXPECT_EQ(before.applied, 1u);
  EXPECT_EQ(before.slots, (std::vector<SlotNumber>{0}));
  const Announcement after = next_announcement();
  EXPECT_EQ(after.applied, 2u);
  EXPECT_EQ(after.names, (std::vector<Variants>{{{gradient("w"), 1, 1}}}));
  EXPECT_FALSE(rank.next_message());
}

TEST_F(RankProtocolTest, EveryRejectAheadOfASubmissionFailsOne) {
  RankProtocol rank(trees_of({0, 0})[1], {});
  Decision decision;
  decision.number = 1;
  decision.steps = {RejectName{"w", {StatusCode::kMismatch, "first"}},
                    RejectName{"w", {StatusCode::kMismatch, "second"}}};
  rank.receive(0, message_of(decision));
  for (const std::string why : {"first", "second"}) {
    rank.submit(5, gradient("w"));
    const auto effect = rank.next_effect();
    ASSERT_TRUE(effect);
    EXPECT_EQ(std::get<FailTicket>(*effect).status.message(), why);
  }
  rank.submit(6, gradient("w"));
  EXPECT_TRUE(rank.next_message());
}

TEST_F(RankProtocolTest, ARejectAheadOfTheSubmissionFailsTheNextSubmissionOnly) {
  RankProtocol rank(trees_of({0, 0})[1], {});
  Decision decision;
  decision.number = 1;
  decision.steps = {RejectName{"w", {StatusCode::kMismatch, "no"}}};
  rank.receive(0, message_of(decision));
  EXPECT_FALSE(rank.next_effect());
  rank.submit(5, gradient("w"));
  EXPECT_FALSE(rank.next_message()) << "it must not meet another rank's next submission";
  const auto effect = rank.next_effect();
  ASSERT_TRUE(effect);
  EXPECT_EQ(std::get<FailTicket>(*effect).ticket, 5u);
  EXPECT_EQ(std::get<FailTicket>(*effect).status, Status(StatusCode::kMismatch, "no"));
  rank.submit(6, gradient("w"));
  EXPECT_TRUE(rank.next_message());
  EXPECT_FALSE(rank.next_effect());
}

TEST_F(RankProtocolTest, ANameInFlightOrARootOutsideTheWorldIsRefused) {
  RankProtocol rank(trees_of({0, 0})[1], {});
  rank.submit(0, gradient("w"));
  EXPECT_THROW(rank.submit(1, gradient("w")), InvalidArgumentError);
  Request broadcast = gradient("v");
  broadcast.root = 2;
  EXPECT_THROW(rank.submit(2, broadcast), InvalidArgumentError);
}

TEST_F(RankProtocolTest, AfterTheEndSubmittingThrowsTheReason) {
  LockStepCluster cluster(trees_of({0, 0}), {});
  cluster.leave(1);
  EXPECT_THROW(cluster.rank(1).submit(0, gradient("w")), AbortedError);
  cluster.settle(random_);
  EXPECT_THROW(cluster.rank(0).submit(0, gradient("w")), AbortedError);
}

TEST_F(RankProtocolTest, MessagesOfAnotherEpochAreDropped) {
  RankProtocol rank(trees_of({0, 0})[1], {}, 7);
  Decision decision;
  decision.number = 1;
  decision.steps = {Stop{{StatusCode::kAborted, "left"}}};
  rank.receive(0, message_of(decision, 6));
  EXPECT_FALSE(rank.next_effect());
  rank.receive(0, message_of(decision, 7));
  EXPECT_TRUE(rank.next_effect());
}

TEST_F(RankProtocolTest, ADecisionThatDoesNotFitThrowsAndChangesNothing) {
  RankProtocol rank(trees_of({0, 0})[1], {});
  rank.submit(3, gradient("w"));
  Decision good;
  good.number = 1;
  good.steps = {DefineSlot{0, gradient("w"), false}, RunSlots{0, 1}};
  good.slots = {0};
  const auto altered = [&](auto change) {
    Decision decision = good;
    change(decision);
    return message_of(decision);
  };
  EXPECT_THROW(rank.receive(0, altered([](Decision& d) { d.number = 2; })), PeerLostError);
  EXPECT_THROW(rank.receive(0, altered([](Decision& d) { d.slots = {1}; })), PeerLostError);
  EXPECT_THROW(rank.receive(0, altered([](Decision& d) {
                              d.steps.emplace_back(RunSlots{0, 1});
                            })),
               PeerLostError);
  EXPECT_THROW(rank.receive(0, altered([](Decision& d) {
                              d.steps[0] = DefineSlot{0, gradient("w", 5), false};
                            })),
               PeerLostError);
  EXPECT_THROW(rank.receive(0, altered([](Decision& d) {
                              d.steps[0] = DefineSlot{4000000, gradient("w"), false};
                            })),
               PeerLostError);
  EXPECT_THROW(rank.receive(1, message_of(good)), PeerLostError);
  EXPECT_FALSE(rank.next_effect());
  rank.receive(0, message_of(good));
  const auto effect = rank.next_effect();
  ASSERT_TRUE(effect);
  EXPECT_EQ(std::get<RunBatch>(*effect).members.at(0).ticket, 3u);
}

}  // namespace
}  // namespace hvd
