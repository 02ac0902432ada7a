#include "ops/nccl/reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(NcclReduction, AnAverageIsNcclsOwn) {
  const auto as = nccl_reduction(DType::kI32, {ReduceOp::kSum, 1.0, 0.25}, 4);
  EXPECT_EQ(as.op, ncclAvg);
  EXPECT_EQ(as.type, ncclInt32);
  EXPECT_EQ(as.scale, 1.0);
}

TEST(NcclReduction, AFloatingSumTakesAnyScale) {
  const auto as = nccl_reduction(DType::kBF16, {ReduceOp::kSum, 0.5, 0.25}, 2);
  EXPECT_EQ(as.op, ncclSum);
  EXPECT_EQ(as.scale, 0.125);
}

TEST(NcclReduction, AComplexNumberIsTwoReals) {
  const auto as = nccl_reduction(DType::kC128, {ReduceOp::kSum}, 2);
  EXPECT_EQ(as.type, ncclFloat64);
  EXPECT_EQ(as.factor, 2u);
}

TEST(NcclReduction, OrAndAndOfBoolsAreMaximumAndMinimum) {
  EXPECT_EQ(nccl_reduction(DType::kBool, {ReduceOp::kSum}, 2).op, ncclMax);
  EXPECT_EQ(nccl_reduction(DType::kBool, {ReduceOp::kBitOr}, 2).op, ncclMax);
  EXPECT_EQ(nccl_reduction(DType::kBool, {ReduceOp::kProduct}, 2).op, ncclMin);
  EXPECT_EQ(nccl_reduction(DType::kBool, {ReduceOp::kBitAnd}, 2).op, ncclMin);
}

TEST(NcclReduction, ScalesThatNcclLacksAreOurs) {
  const auto integer = nccl_reduction(DType::kI32, {ReduceOp::kSum, 2.0, 0.25}, 2);
  EXPECT_EQ(integer.op, ncclSum);
  EXPECT_EQ(integer.before, 2.0);
  EXPECT_EQ(integer.after, 0.25);
  EXPECT_TRUE(integer.needs_buffer(DType::kI32));
  const auto maximum = nccl_reduction(DType::kF32, {ReduceOp::kMax, 1.0, 0.5}, 2);
  EXPECT_EQ(maximum.op, ncclMax);
  EXPECT_EQ(maximum.after, 0.5);
  // 2 * 0.5 is 1, but integers are truncated in between.
  EXPECT_EQ(nccl_reduction(DType::kI32, {ReduceOp::kSum, 0.5, 2.0}, 2).before, 0.5);
}

TEST(NcclReduction, AHalfTravelsAndIsScaledOutsideOfIt) {
  const auto as = nccl_reduction(DType::kF64, {ReduceOp::kSum, 1.0, 0.5, WireFormat::kF16}, 2);
  EXPECT_EQ(as.type, ncclFloat16);
  EXPECT_EQ(as.op, ncclSum);
  EXPECT_EQ(as.wire, DType::kF16);
  EXPECT_EQ(as.after, 0.5);
  EXPECT_FALSE(nccl_reduction(DType::kF32, {ReduceOp::kSum}, 2).needs_buffer(DType::kF32));
}

std::string refusal(DType dtype, const Reduction& reduction) {
  try {
    nccl_reduction(dtype, reduction, 4);
  } catch (const UnsupportedError& error) {
    return error.what();
  }
  return "";
}

TEST(NcclReduction, WhatNcclCannotDoIsRefusedByName) {
  EXPECT_THAT(refusal(DType::kF32, {ReduceOp::kAdasum}),
              AllOf(HasSubstr("Adasum"), HasSubstr("float32")));
  EXPECT_THAT(refusal(DType::kI16, {ReduceOp::kSum}), HasSubstr("int16"));
  EXPECT_THAT(refusal(DType::kI64, {ReduceOp::kBitAnd}), HasSubstr("BitAnd"));
  EXPECT_THAT(refusal(DType::kC64, {ReduceOp::kProduct}), HasSubstr("Product"));
  EXPECT_THAT(refusal(DType::kF32, {ReduceOp::kSum, 1.0, 1.0, WireFormat::kInt8}),
              HasSubstr("int8"));
}

}  // namespace
}  // namespace hvd::engine
