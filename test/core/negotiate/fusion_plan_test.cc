#include "core/negotiate/fusion_plan.h"

#include <gtest/gtest.h>

#include "test/core/negotiate/negotiate_builders.h"

namespace hvd {
namespace {

using test::gradient;

FusionItem item(std::uint32_t id, std::size_t bytes, DType dtype = DType::kF32) {
  return {id, fusion_key(gradient("w", 1, dtype)), bytes};
}

FusionPlan plan_of(const std::vector<FusionItem>& items, std::size_t limit) {
  FusionPlan plan;
  plan_fusion(items, limit, plan);
  return plan;
}

TEST(FusionItem, RoundsEveryTensorOfAGroupUpToACacheLine) {
  Request group = gradient("g");
  group.shapes = {{1}, {16}, {17}, {}};
  EXPECT_EQ(fusion_item(5, gradient("w", 1)).bytes, 64u);
  EXPECT_EQ(fusion_item(5, gradient("w", 0)).bytes, 0u);
  EXPECT_EQ(fusion_item(5, group).bytes, 64u + 64u + 128u + 64u);
  EXPECT_EQ(fusion_item(5, group).id, 5u);
}

TEST(FusionKey, KeepsApartWhateverCannotShareABatch) {
  const auto differs = [](auto change) {
    Request other = gradient("w");
    change(other);
    return fusion_key(other) != fusion_key(gradient("w"));
  };
  EXPECT_TRUE(differs([](Request& r) { r.kind = CollectiveKind::kReduce; }));
  EXPECT_TRUE(differs([](Request& r) { r.dtype = DType::kF64; }));
  EXPECT_TRUE(differs([](Request& r) { r.device = DeviceKind::kCuda; }));
  EXPECT_TRUE(differs([](Request& r) { r.set = 1; }));
  EXPECT_TRUE(differs([](Request& r) { r.op = ReduceOp::kMax; }));
  EXPECT_TRUE(differs([](Request& r) { r.root = 1; }));
  EXPECT_TRUE(differs([](Request& r) { r.prescale = 2; }));
  EXPECT_TRUE(differs([](Request& r) { r.postscale = 2; }));
  EXPECT_TRUE(differs([](Request& r) { r.wire = WireFormat::kF16; }));
  EXPECT_FALSE(differs([](Request& r) { r.name = "v"; }));
  EXPECT_FALSE(differs([](Request& r) { r.shapes = {{1}, {2}}; }));
}

TEST(PlanFusion, KeepsDtypesApartWithoutClosingTheOpenGroup) {
  const FusionPlan plan = plan_of({item(0, 64), item(1, 64, DType::kF64), item(2, 64)}, 1024);
  ASSERT_EQ(plan.groups.size(), 2u);
  const auto members = plan.members_of(plan.groups[0]);
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[1], 2u);
}

TEST(PlanFusion, OpensAnotherGroupWhenTheLimitIsReached) {
  const FusionPlan plan = plan_of({item(0, 64), item(1, 64), item(2, 64)}, 128);
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].count, 2u);
  EXPECT_EQ(plan.groups[1].count, 1u);
}

TEST(PlanFusion, ALimitOfZeroTurnsFusionOff) {
  EXPECT_EQ(plan_of({item(0, 4), item(1, 4)}, 0).groups.size(), 2u);
}

TEST(PlanFusion, ReusesItsStorage) {
  FusionPlan plan = plan_of({item(0, 64), item(1, 64)}, 0);
  const auto* before = plan.members.data();
  plan_fusion(std::vector<FusionItem>{item(9, 64)}, 0, plan);
  EXPECT_EQ(plan.members.data(), before);
  ASSERT_EQ(plan.members.size(), 1u);
  EXPECT_EQ(plan.members[0], 9u);
}

}  // namespace
}  // namespace hvd
