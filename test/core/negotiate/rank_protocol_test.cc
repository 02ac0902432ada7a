#include "core/negotiate/rank_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/negotiate/decision.h"
#include "core/negotiate/messages/message.h"
#include "test/core/negotiate/negotiate_builders.h"
#include "test/support/lock_step_cluster.h"

namespace hvd::engine {
namespace {

using test::gradient;
using test::LockStepCluster;
using test::shared;
using test::Submitted;
using test::trees_of;
using testing::HasSubstr;

Bytes message_of(MessageKind kind, const auto& body, std::uint32_t epoch) {
  Bytes bytes;
  ByteWriter out(bytes);
  serialize(out, MessageHeader{kind, epoch});
  serialize(out, body);
  return bytes;
}

Bytes message_of(const Decision& decision, std::uint32_t epoch = 0) {
  return message_of(MessageKind::kDecision, decision, epoch);
}

Bytes message_of(const Announcement& announcement) {
  return message_of(MessageKind::kAnnouncement, announcement, 0);
}

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
  EXPECT_EQ(cluster.batches().at(0).batch.divisor, 4);
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

TEST_F(RankProtocolTest, WhatAllSendAlongIsReducedByRankZero) {
  LockStepCluster cluster(trees_of({0, 0, 0, 1}), {.eager_bytes = 16});
  const auto run = [&](const Request& request) {
    const std::size_t before = cluster.reduced_by_root();
    submit_everywhere(cluster, request);
    cluster.settle(random_);
    return cluster.reduced_by_root() - before;
  };
  EXPECT_EQ(run(gradient("w")), 0u);  // announced in full
  EXPECT_EQ(run(gradient("w")), 1u);
  cluster.send_values(3, false);
  EXPECT_EQ(run(gradient("w")), 0u);
  cluster.send_values(3, true);
  EXPECT_EQ(run(gradient("w")), 1u);
  run(gradient("too large", 5));
  EXPECT_EQ(run(gradient("too large", 5)), 0u);
}

TEST_F(RankProtocolTest, WhatIsReducedByRankZeroIsNotFused) {
  LockStepCluster cluster(trees_of({0, 0}), {.eager_bytes = 16});
  for (int i = 0; i < 2; ++i) {
    for (const char* name : {"v", "w"}) {
      for (Rank r = 0; r < 2; ++r) cluster.submit(r, gradient(name), false);
    }
    for (Rank r = 0; r < 2; ++r) cluster.flush(r);
    cluster.settle(random_);
  }
  EXPECT_EQ(cluster.batches().size(), 2u);
  EXPECT_EQ(cluster.reduced_by_root(), 0u);
}

TEST_F(RankProtocolTest, ValuesOfARejectedRoundAreForgotten) {
  LockStepCluster cluster(trees_of({0, 0, 0, 2}), {.eager_bytes = 16});
  submit_everywhere(cluster, gradient("w"));
  cluster.settle(random_);
  for (Rank r = 0; r < 3; ++r) cluster.submit(r, gradient("w"));
  cluster.submit(3, gradient("w", 3));
  cluster.settle(random_);
  for (Rank r = 0; r < 4; ++r) {
    EXPECT_EQ(cluster.submitted(r).at(1).outcome, Submitted::Outcome::kRejected);
  }
  cluster.send_values(1, false);
  submit_everywhere(cluster, gradient("w"));
  cluster.settle(random_);
  EXPECT_EQ(cluster.reduced_by_root(), 0u);
  cluster.send_values(1, true);
  submit_everywhere(cluster, gradient("w"));  // the cluster checks the result
  cluster.settle(random_);
  EXPECT_EQ(cluster.reduced_by_root(), 1u);
}

TEST_F(RankProtocolTest, ValuesThatDoNotFitTheirSlotAreRefused) {
  RankProtocol root(trees_of({0, 0, 1})[0], {.eager_bytes = 16});
  Announcement in_full;
  in_full.names = {{{gradient("w"), 1, 2}}};
  root.submit(1, gradient("w"));
  root.receive(1, message_of(in_full));
  root.next_message();
  Announcement good;
  good.applied = 1;
  good.slots = {0};
  good.eager = {{0, 1, Bytes(16)}, {0, 2, Bytes(16)}};
  const auto refused = [&](auto change) {
    Announcement announcement = good;
    change(announcement);
    EXPECT_THROW(root.receive(1, message_of(announcement)), PeerLostError);
  };
  refused([](Announcement& a) { a.eager[1].values.pop_back(); });
  refused([](Announcement& a) { a.eager[1].values.clear(); });
  refused([](Announcement& a) { a.eager[1].rank = 0; });
  refused([](Announcement& a) { a.eager[1].slot = 1; });
  refused([](Announcement& a) { a.slots.clear(); });
  root.receive(1, message_of(good));
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
                HasSubstr("'w': ranks disagree about the dtype: float32 on rank 0, float64 on "
                          "rank 2"));
  }
  submit_everywhere(cluster, gradient("w"));
  cluster.settle(random_);
  EXPECT_EQ(cluster.batches().size(), 1u);
}

// A request for each dtype.
TEST_F(RankProtocolTest, ACallOfSeveralRequestsIsRejectedWithAllThatAnyRankHas) {
  LockStepCluster cluster(trees_of({0, 0, 0, 1, 1}), {});
  Rank rank = 0;
  for (const DType other : {DType::kF64, DType::kI64, DType::kF64, DType::kBool}) {
    Request first = gradient("g");
    first.numbers = {number_of(other, DeviceKind::kCpu)};
    cluster.submit(rank, first);
    cluster.submit(rank++, gradient(name_of_other("g", first.numbers[0]), 4, other));
  }
  cluster.submit(rank, gradient("g", 5));
  cluster.settle(random_);
  for (Rank r = 0; r < 5; ++r) {
    EXPECT_EQ(cluster.submitted(r).size(), r < 4 ? 2u : 1u);
    for (const Submitted& submitted : cluster.submitted(r)) {
      ASSERT_EQ(submitted.outcome, Submitted::Outcome::kRejected) << r;
      EXPECT_THAT(submitted.why.message(), HasSubstr("dtypes: float32, float64 on rank 0"));
    }
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
    EXPECT_EQ(cluster.stopped(r)->why,
              Status(StatusCode::kAborted,
                     "rank 2 left the job after 0 submissions (it ended, or called shutdown())"));
    EXPECT_EQ(cluster.stopped(r)->waits_for, r == 0 ? "w" : "");
    EXPECT_EQ(cluster.stopped(r)->waits_number, r == 0 ? 1u : 0u);
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
    deserialize<MessageHeader>(in);
    Announcement announcement;
    serialize(in, announcement);
    return announcement;
  };
  Decision decision;
  decision.number = 1;
  decision.steps = {DefineSlot{0, shared(gradient("w")), false}};
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

TEST_F(RankProtocolTest, ARejectOfWhatThisRankDidNotSubmitIsRefused) {
  RankProtocol rank(trees_of({0, 0})[1], {});
  Decision decision;
  decision.number = 1;
  decision.steps = {RejectName{0, "w", {StatusCode::kMismatch, "no"}}};
  EXPECT_THROW(rank.receive(0, message_of(decision)), PeerLostError);
  rank.submit(5, gradient("w"));
  rank.receive(0, message_of(decision));
  EXPECT_EQ(std::get<FailTicket>(*rank.next_effect()).ticket, 5u);
}

TEST_F(RankProtocolTest, ANameInFlightOrARootOutsideTheWorldIsRefused) {
  RankProtocol rank(trees_of({0, 0})[1], {});
  rank.submit(0, gradient("w"));
  EXPECT_THROW(rank.submit(1, gradient("w")), InvalidArgumentError);
  Request broadcast = gradient("v");
  broadcast.kind = CollectiveKind::kBroadcast;
  broadcast.root = 2;
  EXPECT_THROW(rank.submit(2, broadcast), InvalidArgumentError);
}

TEST_F(RankProtocolTest, AGroupRunsAsOneAndItsCompositionIsPartOfTheAgreement) {
  LockStepCluster cluster(trees_of({0, 0}), {});
  Request group = gradient("g");
  group.shapes = {{4}, {100}};
  submit_everywhere(cluster, group);
  cluster.settle(random_);
  ASSERT_EQ(cluster.batches().size(), 1u);
  EXPECT_EQ(cluster.batches().at(0).batch.members.size(), 1u);
  EXPECT_EQ(cluster.batches().at(0).batch.bytes, 64u + 448u);
  cluster.submit(0, group);
  group.shapes.pop_back();
  cluster.submit(1, group);
  cluster.settle(random_);
  EXPECT_THAT(cluster.submitted(1).back().why.message(),
              HasSubstr("number of tensors in the group: 2 on rank 0, 1 on rank 1"));
}

TEST_F(RankProtocolTest, RankZeroChangesTheSettingsOfAllRanks) {
  NegotiationSettings settings;
  settings.stall_warning = std::chrono::seconds(0);
  settings.stall_limit = std::chrono::seconds(0);
  LockStepCluster cluster(trees_of({0, 0, 1}), settings);
  cluster.submit(2, gradient("w"));
  cluster.settle(random_);
  EXPECT_FALSE(cluster.rank(1).next_deadline()) << "nobody looks for stalls";
  settings.stall_warning = std::chrono::seconds(60);
  cluster.rank(0).change_settings(settings);
  cluster.flush(0);
  cluster.settle(random_);
  EXPECT_TRUE(cluster.rank(1).next_deadline());
  EXPECT_THROW(cluster.rank(1).change_settings(settings), InvalidArgumentError);
  settings.batches_in_flight = 0;
  EXPECT_THROW(cluster.rank(0).change_settings(settings), InvalidArgumentError);
}

TEST_F(RankProtocolTest, AfterTheEndSubmittingThrowsTheReason) {
  LockStepCluster cluster(trees_of({0, 0}), {});
  cluster.leave(1);
  EXPECT_THROW(cluster.rank(1).submit(0, gradient("w")), AbortedError);
  cluster.settle(random_);
  EXPECT_THROW(cluster.rank(0).submit(0, gradient("w")), AbortedError);
}

TEST_F(RankProtocolTest, WhoIsLostToOneRankAloneHearsOfTheEndToo) {
  LockStepCluster cluster(trees_of({0, 0, 0}), {});
  cluster.rank(2).peer_lost(1, {StatusCode::kTransport, "the cable to rank 1 is cut"});
  cluster.flush(2);
  cluster.settle(random_);
  for (Rank r = 0; r < 3; ++r) {
    ASSERT_TRUE(cluster.stopped(r)) << r;
    EXPECT_THAT(cluster.stopped(r)->why.message(), HasSubstr("the cable to rank 1")) << r;
  }
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
  good.steps = {DefineSlot{0, shared(gradient("w")), false}, RunSlots{0, 1}};
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
                              d.steps[0] = DefineSlot{0, shared(gradient("w", 5)), false};
                            })),
               PeerLostError);
  EXPECT_THROW(rank.receive(0, altered([](Decision& d) {
                              d.steps[0] = DefineSlot{4000000, shared(gradient("w")), false};
                            })),
               PeerLostError);
  EXPECT_THROW(rank.receive(0, altered([](Decision& d) {
                              d.steps[1] = RunSlots{0, 1, Bytes(15)};
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
}  // namespace hvd::engine
