#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "core/negotiate/fusion_plan.h"
#include "core/negotiate/messages/announcement.h"
#include "test/core/negotiate/negotiate_builders.h"
#include "test/support/lock_step_cluster.h"

namespace hvd::engine {
namespace {

using test::gradient;
using test::LockStepCluster;
using test::trees_of;
using testing::HasSubstr;

constexpr std::size_t kSlotAlone = 50;  // bytes: more than a slot number needs, less than a request

Request placed(std::uint64_t offset, ArenaNumber arena = 3) {
  Request request = gradient("a name that is long enough to be seen in a message");
  request.place = {arena, {offset}};
  return request;
}

TEST(ArenaPlace, SurvivesTheWire) {
  Request group = placed(0);
  group.shapes = {{4}, {2, 2}};
  group.place.offsets = {1u << 20, std::uint64_t{1} << 40};
  for (const Request& request : {gradient("w"), placed(64), group}) {
    Bytes bytes;
    ByteWriter out(bytes);
    serialize(out, request);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      ByteReader in({bytes.data(), size});
      EXPECT_THROW(deserialize<Request>(in), PeerLostError) << size;
    }
    ByteReader in(bytes);
    EXPECT_EQ(deserialize<Request>(in), request);
    in.expect_end();
  }
}

TEST(ArenaPlace, BelongsToAllreducesOnly) {
  Request request = placed(64);
  request.kind = CollectiveKind::kBroadcast;
  Bytes bytes;
  ByteWriter out(bytes);
  serialize(out, request);
  ByteReader in(bytes);
  EXPECT_THROW(deserialize<Request>(in), PeerLostError);
}

TEST(ArenaPlace, OneThatIsNotEverywhereTheSameIsNone) {
  for (const Request& other : {placed(128), placed(64, 4), gradient(placed(64).name)}) {
    Variants variants;
    merge(variants, {placed(64), 0, 2});
    merge(variants, {other, 2, 1});
    merge(variants, {placed(64), 3, 1});
    ASSERT_EQ(variants.size(), 1u);
    EXPECT_EQ(variants[0].count, 4);
    EXPECT_EQ(variants[0].request.place, ArenaPlace{});
  }
  Variants same;
  merge(same, {placed(64), 0, 1});
  merge(same, {placed(64), 1, 1});
  EXPECT_EQ(same[0].request, placed(64));
}

TEST(ArenaPlace, WhatNeedsMemoryOfItsOwnIsPacked) {
  Request request = placed(64);
  EXPECT_EQ(fusion_key(request).arena, 3u);
  request.wire = WireFormat::kF16;
  EXPECT_EQ(fusion_key(request).arena, 0u);
  request.wire = WireFormat::kNone;
  request.op = ReduceOp::kAdasum;
  EXPECT_EQ(fusion_key(request).arena, 0u);
}

TEST(ArenaPlace, ArenasAreMadeOneByOne) {
  Request request = gradient("arena", 1, DType::kU8);
  request.kind = CollectiveKind::kMakeArena;
  FusionPlan plan;
  plan.begin(1 << 20);
  for (const std::uint32_t id : {0u, 1u}) plan.add(id, fusion_key(request), fused_bytes(request));
  plan.finish();
  EXPECT_EQ(plan.groups().size(), 2u);
}

class ArenaPlaceTest : public testing::Test {
 protected:
  // Every rank submits its request. Returns the arena of the batch, and in `sent` how many bytes
  // rank 1 announced it with.
  ArenaNumber run(const std::vector<Request>& by_rank) {
    const std::size_t before = cluster_.bytes_sent(1);
    for (Rank r = 0; r < cluster_.size(); ++r) {
      cluster_.submit(r, by_rank[static_cast<std::size_t>(r) % by_rank.size()]);
    }
    cluster_.settle(random_);
    sent_ = cluster_.bytes_sent(1) - before;
    EXPECT_EQ(cluster_.batches().size(), ++rounds_);
    return cluster_.batches().at(rounds_ - 1).batch.key.arena;
  }

  LockStepCluster cluster_{trees_of({0, 0, 0}), {}};
  std::mt19937 random_{7};
  std::size_t sent_ = 0;
  std::uint64_t rounds_ = 0;
};

TEST_F(ArenaPlaceTest, RanksAtOnePlaceReduceThereInSteadyState) {
  EXPECT_EQ(run({placed(64)}), 3u);
  EXPECT_EQ(run({placed(64)}), 3u);
  EXPECT_LT(sent_, kSlotAlone);
}

TEST_F(ArenaPlaceTest, RanksThatDifferPackInSteadyState) {
  const Request elsewhere = placed(128);
  EXPECT_EQ(run({placed(64), elsewhere, gradient(elsewhere.name)}), 0u);
  EXPECT_EQ(run({placed(64), elsewhere, gradient(elsewhere.name)}), 0u);
  EXPECT_LT(sent_, kSlotAlone);
}

TEST_F(ArenaPlaceTest, ARankThatMovesMakesAllPack) {
  EXPECT_EQ(run({placed(64)}), 3u);
  EXPECT_EQ(run({placed(64), placed(128), placed(64)}), 0u);
  EXPECT_GT(sent_, kSlotAlone);
  EXPECT_EQ(run({placed(64), placed(128), placed(64)}), 0u);  // now all tell where they are
  EXPECT_GT(sent_, kSlotAlone);
  EXPECT_EQ(run({placed(64), placed(128), placed(64)}), 0u);
  EXPECT_LT(sent_, kSlotAlone);
}

TEST_F(ArenaPlaceTest, RanksThatMoveOneAfterTheOtherEndUpReducingInPlace) {
  const Request outside = gradient(placed(0).name);
  EXPECT_EQ(run({outside}), 0u);
  EXPECT_EQ(run({outside, placed(64), outside}), 0u);
  EXPECT_EQ(run({outside, placed(64), placed(64)}), 0u);
  EXPECT_EQ(run({placed(64)}), 0u);
  EXPECT_EQ(run({placed(64)}), 3u);
  EXPECT_EQ(run({placed(64)}), 3u);
  EXPECT_LT(sent_, kSlotAlone);
}

TEST_F(ArenaPlaceTest, RanksThatMoveTogetherReduceInTheirNewPlace) {
  EXPECT_EQ(run({gradient(placed(0).name)}), 0u);
  EXPECT_EQ(run({placed(64)}), 3u);
  EXPECT_EQ(run({placed(192, 5)}), 5u);
  EXPECT_EQ(run({placed(192, 5)}), 5u);
  EXPECT_LT(sent_, kSlotAlone);
  EXPECT_EQ(run({gradient(placed(0).name)}), 0u);
}

TEST_F(ArenaPlaceTest, ItIsNoMismatchButTheRestMayBe) {
  cluster_.submit(0, placed(64));
  cluster_.submit(1, placed(128));
  Request other = placed(64);
  other.dtype = DType::kF64;
  cluster_.submit(2, other);
  cluster_.settle(random_);
  for (Rank r = 0; r < 3; ++r) {
    const test::Submitted& submitted = cluster_.submitted(r).at(0);
    ASSERT_EQ(submitted.outcome, test::Submitted::Outcome::kRejected);
    EXPECT_THAT(submitted.why.message(), HasSubstr("dtype: float32 on rank 0, float64 on rank 2"));
  }
}

TEST_F(ArenaPlaceTest, WhileARankHasJoinedTheOthersPack) {
  EXPECT_EQ(run({placed(64)}), 3u);
  cluster_.join(2, kWorldSet);
  cluster_.settle(random_);
  for (const Rank r : {0, 1}) cluster_.submit(r, placed(64));
  cluster_.settle(random_);
  EXPECT_EQ(cluster_.batches().at(1).batch.key.arena, 0u);
  for (const Rank r : {0, 1}) cluster_.join(r, kWorldSet);
  cluster_.settle(random_);
  rounds_ = 2;
  EXPECT_EQ(run({placed(64)}), 3u);
  EXPECT_LT(sent_, kSlotAlone);
}

TEST_F(ArenaPlaceTest, ArenasOfDifferentSizesAreAMismatch) {
  for (Rank r = 0; r < 3; ++r) {
    Request request = gradient("arena", r == 1 ? 128 : 64, DType::kU8);
    request.kind = CollectiveKind::kMakeArena;
    cluster_.submit(r, request);
  }
  cluster_.settle(random_);
  EXPECT_THAT(cluster_.submitted(2).at(0).why.message(),
              HasSubstr("bytes: [64] on rank 0, [128] on rank 1"));
}

}  // namespace
}  // namespace hvd::engine
