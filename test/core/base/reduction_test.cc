#include "core/base/reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/base/status.h"
#include "test/support/reduce_ops.h"
#include "test/support/typed_array.h"

namespace hvd {
namespace {

using testing::HasSubstr;

std::string refusal(DType dtype, const Reduction& reduction) {
  try {
    check_reduction(dtype, reduction);
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST(CheckReduction, AcceptsExactlyTheOperationsOfEachDtype) {
  for (const DType dtype : test::kAllDTypes) {
    auto allowed = test::elementwise_ops(dtype);
    if (dtype != DType::kBool) allowed.push_back(ReduceOp::kAverage);
    if (is_floating(dtype)) allowed.push_back(ReduceOp::kAdasum);
    for (int number = 0; number < kReduceOpCount; ++number) {
      const auto op = static_cast<ReduceOp>(number);
      const bool accepted = refusal(dtype, {.op = op}).empty();
      EXPECT_EQ(accepted, std::find(allowed.begin(), allowed.end(), op) != allowed.end())
          << name_of(op) << " of " << name_of(dtype);
    }
  }
}

TEST(CheckReduction, NamesTheOperationAndTheDtype) {
  EXPECT_EQ(refusal(DType::kC64, {.op = ReduceOp::kMax}),
            "reduction Max is not defined for dtype complex64");
  EXPECT_EQ(refusal(DType::kF32, {.op = ReduceOp::kBitAnd}),
            "reduction BitAnd is not defined for dtype float32");
}

TEST(CheckReduction, BoolTakesNoScale) {
  EXPECT_THAT(refusal(DType::kBool, {.prescale = 0.5}), HasSubstr("prescale 0.5"));
  EXPECT_THAT(refusal(DType::kBool, {.postscale = 0.25}), HasSubstr("bool"));
  EXPECT_EQ(refusal(DType::kU8, {.prescale = 0.5, .postscale = 2}), "");
}

TEST(CheckReduction, WireFormatsCarrySumsAndAveragesOfF32AndF64) {
  for (const WireFormat wire : {WireFormat::kF16, WireFormat::kBF16, WireFormat::kInt8}) {
    for (const DType dtype : test::kAllDTypes) {
      const bool wide = dtype == DType::kF32 || dtype == DType::kF64;
      EXPECT_EQ(refusal(dtype, {.wire = wire}).empty(), wide) << name_of(dtype);
    }
    EXPECT_EQ(refusal(DType::kF32, {.op = ReduceOp::kAverage, .wire = wire}), "");
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kProduct, ReduceOp::kAdasum}) {
      EXPECT_THAT(refusal(DType::kF32, {.op = op, .wire = wire}), HasSubstr(name_of(op)));
    }
  }
  EXPECT_EQ(refusal(DType::kI32, {.wire = WireFormat::kInt8}),
            "wire format int8 is not defined for dtype int32");
}

}  // namespace
}  // namespace hvd
