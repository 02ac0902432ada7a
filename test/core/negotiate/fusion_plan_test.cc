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

TEST(PlanFusion, PlacesMembersOnCacheLines) {
  const FusionPlan plan = plan_of({item(5, 4), item(6, 64), item(7, 65)}, 1024);
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_EQ(plan.groups[0].bytes, 256u);
  EXPECT_EQ(plan.members[0].offset, 0u);
  EXPECT_EQ(plan.members[1].offset, 64u);
  EXPECT_EQ(plan.members[2].offset, 128u);
  EXPECT_EQ(plan.members[2].id, 7u);
}

TEST(PlanFusion, KeepsDtypesApartWithoutClosingTheOpenGroup) {
  const FusionPlan plan = plan_of({item(0, 4), item(1, 8, DType::kF64), item(2, 4)}, 1024);
  ASSERT_EQ(plan.groups.size(), 2u);
  const auto members = plan.members_of(plan.groups[0]);
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[1].id, 2u);
  EXPECT_EQ(members[1].offset, 64u);
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

TEST(PlanFusion, TheMembersOfOneGroupGiveThatGroupAgain) {
  const std::vector<FusionItem> items = {item(0, 4), item(1, 8, DType::kF64), item(2, 100)};
  const FusionPlan whole = plan_of(items, 1024);
  const FusionPlan part = plan_of({items[0], items[2]}, 1024);
  ASSERT_EQ(part.groups.size(), 1u);
  EXPECT_EQ(part.groups[0].bytes, whole.groups[0].bytes);
  EXPECT_EQ(part.members[1].offset, whole.members_of(whole.groups[0])[1].offset);
}

TEST(PlanFusion, ReusesItsStorage) {
  FusionPlan plan = plan_of({item(0, 64), item(1, 64)}, 0);
  const auto* before = plan.members.data();
  plan_fusion(std::vector<FusionItem>{item(9, 64)}, 0, plan);
  EXPECT_EQ(plan.members.data(), before);
  ASSERT_EQ(plan.members.size(), 1u);
  EXPECT_EQ(plan.members[0].id, 9u);
}

}  // namespace
}  // namespace hvd
