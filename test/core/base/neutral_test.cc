#include "core/base/neutral.h"

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/base/half.h"
#include "core/base/status.h"
#include "test/support/typed_array.h"

namespace hvd {
namespace {

template <typename T>
T neutral(ReduceOp op, DType dtype) {
  std::vector<T> values(3, T{42});
  fill_neutral(op, dtype, values.data(), 2);
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[2], T{42}) << "wrote too far";
  return values[0];
}

TEST(FillNeutral, IsZeroForEverySumAndOneForAProduct) {
  for (const DType dtype : test::kAllDTypes) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kAdasum}) {
      test::TypedArray array(dtype, std::vector<double>{1, 1});
      fill_neutral(op, dtype, array.data(), 2);
      EXPECT_EQ(array.values(), (std::vector<double>{0, 0})) << name_of(dtype);
    }
    test::TypedArray array(dtype, 2);
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
