#include "ops/host/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <string>

#include "core/base/half.h"
#include "core/base/status.h"
#include "test/support/reduce_ops.h"
#include "test/support/typed_array.h"

namespace hvd::engine::host {
namespace {

using test::TypedArray;

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
    case ReduceOp::kBitAnd:
      return static_cast<double>(static_cast<int>(a) & static_cast<int>(b));
    case ReduceOp::kBitOr:
      return static_cast<double>(static_cast<int>(a) | static_cast<int>(b));
    default:
      return a + b;
  }
}

bool rounds_to_integers(DType dtype) {
  return !is_floating(dtype) && !is_complex(dtype);
}

double scaled(DType dtype, double value, double factor) {
  const double exact = value * factor;
  return rounds_to_integers(dtype) ? std::trunc(exact) : exact;
}

TypedArray expected(ReduceOp op, const std::vector<TypedArray>& inputs, double prescale = 1.0,
                    double postscale = 1.0) {
  const DType dtype = inputs[0].dtype();
  TypedArray result(dtype, inputs[0].numel());
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    double value = scaled(dtype, inputs[0].at(i), prescale);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      value = apply(op, value, scaled(dtype, inputs[rank].at(i), prescale));
    }
    result.set(i, scaled(dtype, value, postscale));
  }
  return result;
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
    reduce(dtype, op, pointers(inputs), out.data(), numel, 1.0, 1.0);
    ASSERT_EQ(out.values(), expected(op, inputs).values()) << numel << " elements";
  }
}

TEST_P(ReduceExactly, ScalesBeforeAndAfterReducingAndTruncatesIntegersEachTime) {
  const auto [dtype, op, ranks] = GetParam();
  if (dtype == DType::kBool) return;  // takes no scale
  const auto inputs = exact_inputs(dtype, ranks, 2100);
  for (const auto& [prescale, postscale] : {std::pair{1.0, 0.5}, {0.5, 1.0}, {0.5, 4.0}}) {
    TypedArray out(dtype, 2100);
    reduce(dtype, op, pointers(inputs), out.data(), 2100, prescale, postscale);
    ASSERT_EQ(out.values(), expected(op, inputs, prescale, postscale).values())
        << prescale << ", " << postscale;
  }
}

TEST_P(ReduceExactly, MayWriteOverAnyOneOfItsInputs) {
  const auto [dtype, op, ranks] = GetParam();
  for (const auto& [prescale, postscale] : {std::pair{1.0, 1.0}, {1.0, 0.25}, {3.0, 1.0}}) {
    if (dtype == DType::kBool && (prescale != 1.0 || postscale != 1.0)) continue;
    const auto inputs = exact_inputs(dtype, ranks, 2050);
    TypedArray apart(dtype, 2050);
    reduce(dtype, op, pointers(inputs), apart.data(), 2050, prescale, postscale);
    for (std::size_t target = 0; target < ranks; ++target) {
      auto copies = inputs;
      reduce(dtype, op, pointers(copies), copies[target].data(), 2050, prescale, postscale);
      EXPECT_EQ(copies[target], apart) << "over input " << target;
    }
  }
}

std::vector<ExactCase> exact_cases() {
  std::vector<ExactCase> cases;
  for (const DType dtype : test::kAllDTypes) {
    for (const ReduceOp op : test::elementwise_ops(dtype)) {
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
  reduce(GetParam(), ReduceOp::kSum, pointers(inputs), out.data(), kNumel, 1.0, 0.2);
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
    reduce(dtype, ReduceOp::kSum, pointers(inputs), out.data(), 9, 1.0, 1.0);
    EXPECT_EQ(out.values(), std::vector<double>(9, big + 4)) << name_of(dtype);
  }
}

// The sum is beyond f16's largest number (65504); scaled before it is rounded it is not.
TEST(Reduce, ScalesHalvesBeforeRounding) {
  const std::vector<TypedArray> inputs(4, TypedArray(DType::kF16, std::vector<double>(11, 60000)));
  TypedArray out(DType::kF16, 11);
  reduce(DType::kF16, ReduceOp::kSum, pointers(inputs), out.data(), 11, 1.0, 0.25);
  EXPECT_EQ(out.values(), std::vector<double>(11, 60000));
}

// (2^24 + 1) + 1 is 2^24 in f32; 1 + 1 first would give 2^24 + 2.
TEST(Reduce, AddsInTheOrderOfItsInputs) {
  std::vector<TypedArray> inputs;
  for (const double value : {0x1p24, 1.0, 1.0}) {
    inputs.emplace_back(DType::kF32, std::vector<double>(17, value));
  }
  TypedArray out(DType::kF32, 17);
  reduce(DType::kF32, ReduceOp::kSum, pointers(inputs), out.data(), 17, 1.0, 1.0);
  EXPECT_EQ(out.values(), std::vector<double>(17, 0x1p24));
  std::swap(inputs[0], inputs[2]);
  reduce(DType::kF32, ReduceOp::kSum, pointers(inputs), out.data(), 17, 1.0, 1.0);
  EXPECT_EQ(out.values(), std::vector<double>(17, 0x1p24 + 2));
}

template <typename T>
void expect_wraps(DType dtype, T a, T b, T sum, T product) {
  const std::vector<T> first(37, a);
  const std::vector<T> second(37, b);
  const void* const inputs[] = {first.data(), second.data()};
  std::vector<T> out(37);
  reduce(dtype, ReduceOp::kSum, inputs, out.data(), 37, 1.0, 1.0);
  EXPECT_EQ(out, std::vector<T>(37, sum)) << name_of(dtype);
  reduce(dtype, ReduceOp::kProduct, inputs, out.data(), 37, 1.0, 1.0);
  EXPECT_EQ(out, std::vector<T>(37, product)) << name_of(dtype);
  reduce(dtype, ReduceOp::kMax, inputs, out.data(), 37, 1.0, 1.0);
  EXPECT_EQ(out, std::vector<T>(37, std::max(a, b))) << name_of(dtype);
  reduce(dtype, ReduceOp::kMin, inputs, out.data(), 37, 1.0, 1.0);
  EXPECT_EQ(out, std::vector<T>(37, std::min(a, b))) << name_of(dtype);
}

TEST(Reduce, IntegersWrapAroundAndCompareAsTheirType) {
  constexpr auto kMax32 = std::numeric_limits<std::int32_t>::max();
  constexpr auto kMax64 = std::numeric_limits<std::int64_t>::max();
  expect_wraps<std::uint8_t>(DType::kU8, 255, 3, 2, 253);
  expect_wraps<std::int8_t>(DType::kI8, 127, 3, -126, 125);
  expect_wraps<std::uint16_t>(DType::kU16, 65535, 3, 2, 65533);
  expect_wraps<std::int16_t>(DType::kI16, 32767, 3, -32766, 32765);
  expect_wraps<std::int32_t>(DType::kI32, kMax32, 3, -kMax32 + 1, kMax32 - 2);
  expect_wraps<std::int64_t>(DType::kI64, kMax64, 3, -kMax64 + 1, kMax64 - 2);
}

TEST(Reduce, ScaleOneKeepsIntegersThatF64CannotHold) {
  const std::int64_t odd = (std::int64_t{1} << 60) + 1;
  const std::int64_t zero = 0;
  const void* const inputs[] = {&odd, &zero};
  std::int64_t out = 0;
  reduce(DType::kI64, ReduceOp::kSum, inputs, &out, 1, 1.0, 1.0);
  EXPECT_EQ(out, odd);
}

TEST(Reduce, ScaledIntegersTruncateTowardsZeroAndSaturate) {
  const std::int32_t values[] = {-7, 7, std::numeric_limits<std::int32_t>::max(),
                                 std::numeric_limits<std::int32_t>::min()};
  const void* const inputs[] = {values};
  std::int32_t out[4];
  reduce(DType::kI32, ReduceOp::kSum, inputs, out, 4, 1.0, 0.5);
  EXPECT_EQ(out[0], -3);
  EXPECT_EQ(out[1], 3);
  reduce(DType::kI32, ReduceOp::kSum, inputs, out, 4, 1.0, 4.0);
  EXPECT_EQ(out[1], 28);
  EXPECT_EQ(out[2], values[2]);
  EXPECT_EQ(out[3], values[3]);
  reduce(DType::kI32, ReduceOp::kSum, inputs, out, 4, 1.0, std::nan(""));
  EXPECT_EQ(out[0], 0);
  const std::int64_t large = std::numeric_limits<std::int64_t>::max();
  const void* const large_input[] = {&large};
  std::int64_t large_out = 0;
  reduce(DType::kI64, ReduceOp::kSum, large_input, &large_out, 1, 1.0, 1.5);
  EXPECT_EQ(large_out, large);
}

TEST(Reduce, SaturatesEachPrescaledIntegerBeforeItIsAdded) {
  const std::int8_t a = 100;
  const std::int8_t b = -5;
  const void* const inputs[] = {&a, &b};
  std::int8_t out = 0;
  reduce(DType::kI8, ReduceOp::kSum, inputs, &out, 1, 2.0, 1.0);
  EXPECT_EQ(out, 127 - 10);
}

// 60000 and 60000 overflow f16 when they are prescaled by 2, but not in f32.
TEST(Reduce, PrescalesHalvesWithoutRoundingThem) {
  const std::vector<TypedArray> inputs(2, TypedArray(DType::kF16, std::vector<double>(11, 60000)));
  TypedArray out(DType::kF16, 11);
  reduce(DType::kF16, ReduceOp::kSum, pointers(inputs), out.data(), 11, 2.0, 0.25);
  EXPECT_EQ(out.values(), std::vector<double>(11, 60000));
}

TEST(Reduce, AddsAndMultipliesComplexNumbersAndScalesBothParts) {
  using Complex = std::complex<double>;
  for (const DType dtype : {DType::kC64, DType::kC128}) {
    std::vector<TypedArray> inputs(3, TypedArray(dtype, 700));
    for (std::int64_t i = 0; i < 700; ++i) {
      const auto k = static_cast<double>(i % 5);
      inputs[0].set_complex(i, Complex(k, 2));
      inputs[1].set_complex(i, Complex(-1, k));
      inputs[2].set_complex(i, Complex(3, -4));
    }
    TypedArray sum(dtype, 700);
    TypedArray product(dtype, 700);
    reduce(dtype, ReduceOp::kSum, pointers(inputs), sum.data(), 700, 2.0, 0.25);
    reduce(dtype, ReduceOp::kProduct, pointers(inputs), product.data(), 700, 1.0, 1.0);
    for (std::int64_t i = 0; i < 700; ++i) {
      const auto k = static_cast<double>(i % 5);
      ASSERT_EQ(sum.complex_at(i), Complex(k + 2, k - 2) / 2.0) << i;
      // (k + 2i)(-1 + ki) = -3k + (kk - 2)i
      ASSERT_EQ(product.complex_at(i), Complex(-3 * k, k * k - 2) * Complex(3, -4)) << i;
    }
  }
}

TEST(Reduce, SumAndProductOfBoolsAreOrAndAnd) {
  const std::uint8_t a[] = {0, 0, 1, 1};
  const std::uint8_t b[] = {0, 1, 0, 1};
  const void* const inputs[] = {a, b};
  std::vector<std::uint8_t> out(4);
  reduce(DType::kBool, ReduceOp::kSum, inputs, out.data(), 4, 1.0, 1.0);
  EXPECT_EQ(out, (std::vector<std::uint8_t>{0, 1, 1, 1}));
  reduce(DType::kBool, ReduceOp::kProduct, inputs, out.data(), 4, 1.0, 1.0);
  EXPECT_EQ(out, (std::vector<std::uint8_t>{0, 0, 0, 1}));
}

class ReduceNan : public testing::TestWithParam<DType> {};

TEST_P(ReduceNan, MinAndMaxReturnNanWhereAnyInputIsNan) {
  for (const ReduceOp op : test::elementwise_ops(GetParam())) {
    for (std::size_t where = 0; where < 3; ++where) {
      auto inputs = exact_inputs(GetParam(), 3, 21);
      inputs[where].set(4, std::nan(""));   // in a vector
      inputs[where].set(20, std::nan(""));  // in the tail
      TypedArray out(GetParam(), 21);
      reduce(GetParam(), op, pointers(inputs), out.data(), 21, 1.0, 1.0);
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
  for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kAdasum, ReduceOp::kBitOr}) {
    EXPECT_THROW(reduce(DType::kF32, op, inputs, &value, 1, 1.0, 1.0), InvalidArgumentError)
        << name_of(op);
  }
  EXPECT_THROW(reduce(DType::kBool, ReduceOp::kSum, inputs, &value, 1, 1.0, 0.5),
               InvalidArgumentError);
  EXPECT_THROW(reduce(DType::kF32, ReduceOp::kSum, {}, &value, 1, 1.0, 1.0), InvalidArgumentError);
  EXPECT_THROW(reduce(DType::kF32, ReduceOp::kSum, inputs, &value, -1, 1.0, 1.0),
               InvalidArgumentError);
  EXPECT_THROW(reduce(static_cast<DType>(99), ReduceOp::kSum, inputs, &value, 1, 1.0, 1.0),
               InvalidArgumentError);
}

std::int64_t scaled_by(std::int64_t value, double factor) {
  std::int64_t result = 0;
  const void* const input = &value;
  reduce(DType::kI64, ReduceOp::kSum, std::span(&input, 1), &result, 1, 1.0, factor);
  return result;
}

TEST(Reduce, TheAverageOfEqualIntegersIsThatInteger) {
  for (std::int64_t ranks = 1; ranks <= 1'000; ++ranks) {
    for (const std::int64_t value : {1, -1, 3, 1'000'003}) {
      EXPECT_EQ(scaled_by(value * ranks, 1.0 / static_cast<double>(ranks)), value) << ranks;
    }
  }
  EXPECT_EQ(scaled_by(7, 0.5), 3);
  EXPECT_EQ(scaled_by(-7, 0.5), -3);
  constexpr std::int64_t kLarge = (std::int64_t{1} << 52) - 1;
  EXPECT_EQ(scaled_by(kLarge, 2.0), 2 * kLarge);
  EXPECT_EQ(scaled_by(2 * kLarge, 0.5), kLarge);
}

template <typename T>
constexpr bool kIsComplexNumber = false;
template <typename T>
constexpr bool kIsComplexNumber<std::complex<T>> = true;

// One that has the operations of T.
template <typename T>
DType dtype_like() {
  if (kIsComplexNumber<T>) return DType::kC64;
  return std::is_integral_v<T> ? DType::kI32 : DType::kF32;
}

// All kernels of one type: neither the instruction set nor scaling in the same pass changes a bit.
template <typename T>
void expect_equal_kernels(DType dtype, const std::vector<T>& a, const std::vector<T>& b) {
  const auto count = static_cast<std::int64_t>(a.size());
  for (const ReduceOp op : test::elementwise_ops(dtype)) {
    std::vector<std::vector<T>> results;
    for (const Isa isa : {Isa::kBaseline, best_isa()}) {
      std::vector<T>& out = results.emplace_back(a.size());
      const Kernels<T> kernel = kernels<T>(op, isa);
      kernel.combine(a.data(), b.data(), out.data(), count);
      kernel.scale(out.data(), 0.3, out.data(), count);
      auto& in_one_pass = results.emplace_back(a.size());
      kernel.combine_scaled(a.data(), b.data(), 0.3, in_one_pass.data(), count);
    }
    for (const auto& result : results) EXPECT_EQ(result, results[0]) << name_of(op);
  }
}

template <typename T>
T random_element(std::mt19937_64& random) {
  const auto bits = static_cast<std::int64_t>(random());
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    return static_cast<T>(static_cast<double>(bits) * 0x1p-63);
  }
}

template <typename T>
class KernelsOf : public testing::Test {};

using Accumulators =
    testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::int32_t,
                   std::int64_t, float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(KernelsOf, Accumulators);

TYPED_TEST(KernelsOf, GiveTheSameBitsOnEveryInstructionSetAndInOnePass) {
  using T = TypeParam;
  std::mt19937_64 random(11);
  std::vector<T> sides[2];
  for (auto& side : sides) {
    for (int i = 0; i < 1003; ++i) {
      if constexpr (kIsComplexNumber<T>) {
        using Part = typename T::value_type;
        side.push_back({random_element<Part>(random), random_element<Part>(random)});
      } else {
        side.push_back(random_element<T>(random));
      }
    }
  }
  expect_equal_kernels(dtype_like<T>(), sides[0], sides[1]);
}

}  // namespace
}  // namespace hvd::engine::host
