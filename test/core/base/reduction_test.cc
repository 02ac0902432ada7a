#include "core/base/reduction.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/half.h"
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
  for (const DType dtype : engine::test::kAllDTypes) {
    auto allowed = engine::test::elementwise_ops(dtype);
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
    for (const DType dtype : engine::test::kAllDTypes) {
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

template <typename T>
T neutral(ReduceOp op, DType dtype) {
  std::vector<T> values(3, T{42});
  fill_neutral(op, dtype, values.data(), 2);
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[2], T{42}) << "wrote too far";
  return values[0];
}

TEST(FillNeutral, IsZeroForEverySumAndOneForAProduct) {
  for (const DType dtype : engine::test::kAllDTypes) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kAdasum}) {
      engine::test::TypedArray array(dtype, std::vector<double>{1, 1});
      fill_neutral(op, dtype, array.data(), 2);
      EXPECT_EQ(array.values(), (std::vector<double>{0, 0})) << name_of(dtype);
    }
    engine::test::TypedArray array(dtype, 2);
    fill_neutral(ReduceOp::kProduct, dtype, array.data(), 2);
    EXPECT_EQ(array.values(), (std::vector<double>{1, 1})) << name_of(dtype);
  }
}

TEST(FillNeutral, LeavesTheImaginaryPartOfAProductAlone) {
  EXPECT_EQ(neutral<std::complex<float>>(ReduceOp::kProduct, DType::kC64),
            std::complex<float>(1, 0));
}

TEST(FillNeutral, IsTheFarthestValueForAnOrder) {
  EXPECT_EQ(neutral<std::uint8_t>(ReduceOp::kMin, DType::kU8), 255);
  EXPECT_EQ(neutral<std::uint8_t>(ReduceOp::kMax, DType::kU8), 0);
  EXPECT_EQ(neutral<std::int8_t>(ReduceOp::kMin, DType::kI8), 127);
  EXPECT_EQ(neutral<std::int8_t>(ReduceOp::kMax, DType::kI8), -128);
  EXPECT_EQ(neutral<std::uint16_t>(ReduceOp::kMin, DType::kU16), 65535);
  EXPECT_EQ(neutral<std::int16_t>(ReduceOp::kMax, DType::kI16), -32768);
  EXPECT_EQ(neutral<std::int32_t>(ReduceOp::kMin, DType::kI32),
            std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(neutral<std::int64_t>(ReduceOp::kMax, DType::kI64),
            std::numeric_limits<std::int64_t>::min());
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(neutral<float>(ReduceOp::kMin, DType::kF32), infinity);
  EXPECT_EQ(neutral<double>(ReduceOp::kMax, DType::kF64), -infinity);
  Float16 half;
  fill_neutral(ReduceOp::kMin, DType::kF16, &half, 1);
  EXPECT_EQ(to_float(half), infinity);
  BFloat16 brain;
  fill_neutral(ReduceOp::kMax, DType::kBF16, &brain, 1);
  EXPECT_EQ(to_float(brain), -infinity);
  bool flag = false;
  fill_neutral(ReduceOp::kMin, DType::kBool, &flag, 1);
  EXPECT_TRUE(flag);
  fill_neutral(ReduceOp::kMax, DType::kBool, &flag, 1);
  EXPECT_FALSE(flag);
}

TEST(FillNeutral, IsAllOnesForAnAndOfBitsAndZeroForAnOr) {
  EXPECT_EQ(neutral<std::uint16_t>(ReduceOp::kBitAnd, DType::kU16), 0xffff);
  EXPECT_EQ(neutral<std::int32_t>(ReduceOp::kBitAnd, DType::kI32), -1);
  EXPECT_EQ(neutral<std::int64_t>(ReduceOp::kBitOr, DType::kI64), 0);
  // A bool is one byte, 0 or 1, never all ones.
  EXPECT_EQ(neutral<std::uint8_t>(ReduceOp::kBitAnd, DType::kBool), 1);
  EXPECT_EQ(neutral<std::uint8_t>(ReduceOp::kBitOr, DType::kBool), 0);
}

TEST(FillNeutral, RefusesWhatHasNoneAndTouchesNothing) {
  std::vector<std::complex<double>> values = {{1, 2}};
  EXPECT_THROW(fill_neutral(ReduceOp::kMin, DType::kC128, values.data(), 1), InvalidArgumentError);
  EXPECT_THROW(fill_neutral(ReduceOp::kBitAnd, DType::kF32, values.data(), 1),
               InvalidArgumentError);
  EXPECT_THROW(fill_neutral(ReduceOp::kBitOr, DType::kF16, values.data(), 1), InvalidArgumentError);
  EXPECT_EQ(values[0], (std::complex<double>{1, 2}));
}

}  // namespace
}  // namespace hvd
