#include "core/negotiate/fusion_plan.h"

#include <gtest/gtest.h>

#include "test/core/negotiate/negotiate_builders.h"

namespace hvd::engine {
namespace {

using test::gradient;

struct Placed {
  std::size_t bytes = 0;
  DType dtype = DType::kF32;
};

// Their places in the list are their ids.
void make_plan(const std::vector<Placed>& requests, std::size_t limit, FusionPlan& plan) {
  plan.begin(limit);
  for (const Placed& each : requests) {
    plan.add(static_cast<std::uint32_t>(plan.size()), fusion_key(gradient("w", 1, each.dtype)),
             each.bytes);
  }
  plan.finish();
}

FusionPlan plan_of(const std::vector<Placed>& requests, std::size_t limit) {
  FusionPlan plan;
  make_plan(requests, limit, plan);
  return plan;
}

TEST(FusedBytes, RoundsEveryTensorOfAGroupUpToACacheLine) {
  Request group = gradient("g");
  group.shapes = {{1}, {16}, {17}, {}};
  EXPECT_EQ(fused_bytes(gradient("w", 1)), 64u);
  EXPECT_EQ(fused_bytes(gradient("w", 0)), 0u);
  EXPECT_EQ(fused_bytes(group), 64u + 64u + 128u + 64u);
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
  const FusionPlan plan = plan_of({{64}, {64, DType::kF64}, {64}}, 1024);
  ASSERT_EQ(plan.groups().size(), 2u);
  const auto members = plan.members_of(plan.groups()[0]);
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[1], 2u);
}

TEST(PlanFusion, OpensAnotherGroupWhenTheLimitIsReached) {
  const FusionPlan plan = plan_of({{64}, {64}, {64}}, 128);
  ASSERT_EQ(plan.groups().size(), 2u);
  EXPECT_EQ(plan.groups()[0].count, 2u);
  EXPECT_EQ(plan.groups()[1].count, 1u);
}

TEST(PlanFusion, ALimitOfZeroTurnsFusionOff) {
  EXPECT_EQ(plan_of({{4}, {4}}, 0).groups().size(), 2u);
}

TEST(PlanFusion, ReusesItsStorage) {
  FusionPlan plan = plan_of({{64}, {64}}, 0);
  const auto* before = plan.members_of(plan.groups()[0]).data();
  make_plan({{64}}, 0, plan);
  ASSERT_EQ(plan.groups().size(), 1u);
  const auto members = plan.members_of(plan.groups()[0]);
  EXPECT_EQ(members.data(), before);
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(members[0], 0u);
}

}  // namespace
}  // namespace hvd::engine
