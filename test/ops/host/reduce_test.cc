#include "ops/host/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "core/base/half.h"
#include "core/base/status.h"
#include "ops/host/kernels.h"
#include "test/support/typed_array.h"

namespace hvd::host {
namespace {

using test::TypedArray;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};

// Small integers that no dtype rounds, neither in a sum nor in a product of four.
double small_integer(std::size_t rank, std::int64_t i) {
  return static_cast<double>((static_cast<std::int64_t>(rank) * 5 + i * 7) % 4);
}

std::vector<TypedArray> exact_inputs(DType dtype, std::size_t ranks, std::int64_t numel) {
  std::vector<TypedArray> inputs;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    TypedArray& input = inputs.emplace_back(dtype, numel);
    for (std::int64_t i = 0; i < numel; ++i) input.set(i, small_integer(rank, i));
  }
  return inputs;
}

std::vector<const void*> pointers(const std::vector<TypedArray>& arrays) {
  std::vector<const void*> all;
  for (const TypedArray& array : arrays) all.push_back(array.data());
  return all;
}

double apply(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProduct:
      return a * b;
    default:
      return a + b;
  }
}

double expected(ReduceOp op, const std::vector<TypedArray>& inputs, std::int64_t i) {
  double value = inputs[0].at(i);
  for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
    value = apply(op, value, inputs[rank].at(i));
  }
  return value;
}

struct ExactCase {
  DType dtype;
  ReduceOp op;
  std::size_t ranks;
};

class ReduceExactly : public testing::TestWithParam<ExactCase> {};

// 0 and 1, around a vector's width, around the block's size.
TEST_P(ReduceExactly, GivesTheExactResultAtEveryLength) {
  const auto [dtype, op, ranks] = GetParam();
  for (const std::int64_t numel : {0, 1, 3, 7, 8, 9, 31, 64, 1023, 1024, 1025, 4099}) {
    const auto inputs = exact_inputs(dtype, ranks, numel);
    TypedArray out(dtype, numel);
    reduce(dtype, op, pointers(inputs), out.data(), numel, 1.0);
    for (std::int64_t i = 0; i < numel; ++i) {
      ASSERT_EQ(out.at(i), expected(op, inputs, i)) << "element " << i << " of " << numel;
    }
  }
}

TEST_P(ReduceExactly, ScalesAfterReducingAndTruncatesIntegers) {
  const auto [dtype, op, ranks] = GetParam();
  const auto inputs = exact_inputs(dtype, ranks, 1100);
  TypedArray out(dtype, 1100);
  reduce(dtype, op, pointers(inputs), out.data(), 1100, 0.5);
  for (std::int64_t i = 0; i < 1100; ++i) {
    const double half = expected(op, inputs, i) / 2;
    ASSERT_EQ(out.at(i), is_floating(dtype) ? half : std::trunc(half)) << "element " << i;
  }
}

TEST_P(ReduceExactly, MayWriteOverAnyOneOfItsInputs) {
  const auto [dtype, op, ranks] = GetParam();
  for (const double scale : {1.0, 0.25}) {
    const auto inputs = exact_inputs(dtype, ranks, 2050);
    TypedArray apart(dtype, 2050);
    reduce(dtype, op, pointers(inputs), apart.data(), 2050, scale);
    for (std::size_t target = 0; target < ranks; ++target) {
      auto copies = inputs;
      reduce(dtype, op, pointers(copies), copies[target].data(), 2050, scale);
      EXPECT_EQ(copies[target], apart) << "over input " << target;
    }
  }
}

std::vector<ExactCase> exact_cases() {
  std::vector<ExactCase> cases;
  for (const DType dtype : test::kAllDTypes) {
    for (const ReduceOp op : kOps) {
      for (const std::size_t ranks : {1u, 2u, 4u}) cases.push_back({dtype, op, ranks});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, ReduceExactly, testing::ValuesIn(exact_cases()),
                         [](const auto& given) {
                           return std::string(name_of(given.param.dtype)) + "_" +
                                  std::string(name_of(given.param.op)) + "_" +
                                  std::to_string(given.param.ranks);
                         });

class ReduceRandomly : public testing::TestWithParam<DType> {};

// Of n numbers below 1 each partial sum is below n; every rounding errs by half a unit at most.
TEST_P(ReduceRandomly, StaysWithinItsRoundingBound) {
  constexpr std::int64_t kNumel = 3000;
  constexpr std::size_t kRanks = 5;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  std::vector<TypedArray> inputs;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    TypedArray& input = inputs.emplace_back(GetParam(), kNumel);
    for (std::int64_t i = 0; i < kNumel; ++i) input.set(i, uniform(random));
  }
  TypedArray out(GetParam(), kNumel);
  reduce(GetParam(), ReduceOp::kSum, pointers(inputs), out.data(), kNumel, 0.2);
  const bool f64 = GetParam() == DType::kF64;
  const double accumulate = f64 ? 0x1p-53 : 0x1p-24;
  const double store = GetParam() == DType::kF16    ? 0x1p-11
                       : GetParam() == DType::kBF16 ? 0x1p-8
                                                    : accumulate;
  bool rounded = false;
  for (std::int64_t i = 0; i < kNumel; ++i) {
    long double exact = 0;
    for (const TypedArray& input : inputs) exact += input.at(i);
    const double error = static_cast<double>(std::fabs(out.at(i) - exact * 0.2L));
    ASSERT_LE(error, (kRanks + 2) * accumulate + store + 0x1p-25) << "element " << i;
    rounded |= error > 0;
  }
  EXPECT_TRUE(rounded);
}

INSTANTIATE_TEST_SUITE_P(Floats, ReduceRandomly,
                         testing::Values(DType::kF16, DType::kBF16, DType::kF32, DType::kF64),
                         [](const auto& given) { return std::string(name_of(given.param)); });

// 2048 + 1 is no f16 (nor 256 + 1 a bf16): rounding each partial sum would lose every 1.
TEST(Reduce, RoundsHalvesOnceAfterAllRanksWereAdded) {
  for (const auto& [dtype, big] : {std::pair{DType::kF16, 2048.0}, {DType::kBF16, 256.0}}) {
    const double values[] = {big, 1, 1, 1, 1};
    std::vector<TypedArray> inputs;
    for (const double value : values) inputs.emplace_back(dtype, std::vector<double>(9, value));
    TypedArray out(dtype, 9);
    reduce(dtype, ReduceOp::kSum, pointers(inputs), out.data(), 9, 1.0);
    EXPECT_EQ(out.values(), std::vector<double>(9, big + 4)) << name_of(dtype);
  }
}

// The sum is beyond f16's largest number (65504); scaled before it is rounded it is not.
TEST(Reduce, ScalesHalvesBeforeRounding) {
  const std::vector<TypedArray> inputs(4, TypedArray(DType::kF16, std::vector<double>(11, 60000)));
  TypedArray out(DType::kF16, 11);
  reduce(DType::kF16, ReduceOp::kSum, pointers(inputs), out.data(), 11, 0.25);
  EXPECT_EQ(out.values(), std::vector<double>(11, 60000));
}

// (2^24 + 1) + 1 is 2^24 in f32; 1 + 1 first would give 2^24 + 2.
TEST(Reduce, AddsInTheOrderOfItsInputs) {
  std::vector<TypedArray> inputs;
  for (const double value : {0x1p24, 1.0, 1.0}) {
    inputs.emplace_back(DType::kF32, std::vector<double>(17, value));
  }
  TypedArray out(DType::kF32, 17);
  reduce(DType::kF32, ReduceOp::kSum, pointers(inputs), out.data(), 17, 1.0);
  EXPECT_EQ(out.values(), std::vector<double>(17, 0x1p24));
  std::swap(inputs[0], inputs[2]);
  reduce(DType::kF32, ReduceOp::kSum, pointers(inputs), out.data(), 17, 1.0);
  EXPECT_EQ(out.values(), std::vector<double>(17, 0x1p24 + 2));
}

template <typename T>
void expect_wraps(DType dtype, T a, T b, T sum, T product) {
  const std::vector<T> first(37, a);
  const std::vector<T> second(37, b);
  const void* const inputs[] = {first.data(), second.data()};
  std::vector<T> out(37);
  reduce(dtype, ReduceOp::kSum, inputs, out.data(), 37, 1.0);
  EXPECT_EQ(out, std::vector<T>(37, sum)) << name_of(dtype);
  reduce(dtype, ReduceOp::kProduct, inputs, out.data(), 37, 1.0);
  EXPECT_EQ(out, std::vector<T>(37, product)) << name_of(dtype);
}

TEST(Reduce, IntegersWrapAround) {
  constexpr auto kMax32 = std::numeric_limits<std::int32_t>::max();
  constexpr auto kMax64 = std::numeric_limits<std::int64_t>::max();
  expect_wraps<std::uint8_t>(DType::kU8, 255, 3, 2, 253);
  expect_wraps<std::int32_t>(DType::kI32, kMax32, 3, -kMax32 + 1, kMax32 - 2);
  expect_wraps<std::int64_t>(DType::kI64, kMax64, 3, -kMax64 + 1, kMax64 - 2);
}

TEST(Reduce, ScaleOneKeepsIntegersThatF64CannotHold) {
  const std::int64_t odd = (std::int64_t{1} << 60) + 1;
  const std::int64_t zero = 0;
  const void* const inputs[] = {&odd, &zero};
  std::int64_t out = 0;
  reduce(DType::kI64, ReduceOp::kSum, inputs, &out, 1, 1.0);
  EXPECT_EQ(out, odd);
}

TEST(Reduce, ScaledIntegersTruncateTowardsZeroAndSaturate) {
  const std::int32_t values[] = {-7, 7, std::numeric_limits<std::int32_t>::max(),
                                 std::numeric_limits<std::int32_t>::min()};
  const void* const inputs[] = {values};
  std::int32_t out[4];
  reduce(DType::kI32, ReduceOp::kSum, inputs, out, 4, 0.5);
  EXPECT_EQ(out[0], -3);
  EXPECT_EQ(out[1], 3);
  reduce(DType::kI32, ReduceOp::kSum, inputs, out, 4, 4.0);
  EXPECT_EQ(out[1], 28);
  EXPECT_EQ(out[2], values[2]);
  EXPECT_EQ(out[3], values[3]);
  reduce(DType::kI32, ReduceOp::kSum, inputs, out, 4, std::nan(""));
  EXPECT_EQ(out[0], 0);
  const std::int64_t large = std::numeric_limits<std::int64_t>::max();
  const void* const large_input[] = {&large};
  std::int64_t large_out = 0;
  reduce(DType::kI64, ReduceOp::kSum, large_input, &large_out, 1, 1.5);
  EXPECT_EQ(large_out, large);
}

class ReduceNan : public testing::TestWithParam<DType> {};

TEST_P(ReduceNan, MinAndMaxReturnNanWhereAnyInputIsNan) {
  for (const ReduceOp op : kOps) {
    for (std::size_t where = 0; where < 3; ++where) {
      auto inputs = exact_inputs(GetParam(), 3, 21);
      inputs[where].set(4, std::nan(""));   // in a vector
      inputs[where].set(20, std::nan(""));  // in the tail
      TypedArray out(GetParam(), 21);
      reduce(GetParam(), op, pointers(inputs), out.data(), 21, 1.0);
      for (std::int64_t i = 0; i < 21; ++i) {
        ASSERT_EQ(std::isnan(out.at(i)), i == 4 || i == 20)
            << name_of(op) << ", NaN in input " << where << ", element " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Floats, ReduceNan,
                         testing::Values(DType::kF16, DType::kBF16, DType::kF32, DType::kF64),
                         [](const auto& given) { return std::string(name_of(given.param)); });

TEST(Reduce, RefusesWhatItCannotReduce) {
  float value = 1;
  const void* const inputs[] = {&value};
  EXPECT_THROW(reduce(DType::kF32, ReduceOp::kAverage, inputs, &value, 1, 1.0),
               InvalidArgumentError);
  EXPECT_THROW(reduce(DType::kF32, ReduceOp::kSum, {}, &value, 1, 1.0), InvalidArgumentError);
  EXPECT_THROW(reduce(DType::kF32, ReduceOp::kSum, inputs, &value, -1, 1.0), InvalidArgumentError);
  EXPECT_THROW(reduce(static_cast<DType>(99), ReduceOp::kSum, inputs, &value, 1, 1.0),
               InvalidArgumentError);
}

// All kernels of one type: the instruction set must not change a bit.
template <typename T>
void expect_equal_kernels(const std::vector<T>& a, const std::vector<T>& b) {
  const auto count = static_cast<std::int64_t>(a.size());
  for (const ReduceOp op : kOps) {
    std::vector<std::vector<T>> results;
    for (const Isa isa : {Isa::kBaseline, best_isa()}) {
      auto& out = results.emplace_back(a.size());
      const Kernels<T> kernel = kernels<T>(op, isa);
      kernel.combine(a.data(), b.data(), out.data(), count);
      kernel.scale(out.data(), 0.3, out.data(), count);
    }
    EXPECT_EQ(results[0], results[1]) << name_of(op);
  }
}

TEST(Kernels, GiveTheSameBitsOnEveryInstructionSet) {
  std::mt19937_64 random(11);
  std::vector<float> f[2];
  std::vector<double> d[2];
  std::vector<std::int32_t> i[2];
  std::vector<std::int64_t> l[2];
  std::vector<std::uint8_t> u[2];
  for (int side = 0; side < 2; ++side) {
    for (int n = 0; n < 1003; ++n) {
      const auto bits = random();
      f[side].push_back(static_cast<float>(static_cast<std::int64_t>(bits)) * 0x1p-63f);
      d[side].push_back(static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-63);
      i[side].push_back(static_cast<std::int32_t>(bits));
      l[side].push_back(static_cast<std::int64_t>(bits));
      u[side].push_back(static_cast<std::uint8_t>(bits));
    }
  }
  expect_equal_kernels(f[0], f[1]);
  expect_equal_kernels(d[0], d[1]);
  expect_equal_kernels(i[0], i[1]);
  expect_equal_kernels(l[0], l[1]);
  expect_equal_kernels(u[0], u[1]);
}

}  // namespace
}  // namespace hvd::host
