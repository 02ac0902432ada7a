#include "ops/host/adasum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "core/base/status.h"
#include "test/support/typed_array.h"

namespace hvd::engine::host {
namespace {

using test::TypedArray;

std::vector<const void*> pointers(const std::vector<TypedArray>& arrays) {
  std::vector<const void*> all;
  for (const TypedArray& array : arrays) all.push_back(array.data());
  return all;
}

TypedArray adasum_of(const std::vector<TypedArray>& inputs, double prescale = 1.0,
                     double postscale = 1.0) {
  TypedArray out(inputs[0].dtype(), inputs[0].numel());
  adasum(out.dtype(), pointers(inputs), out.data(), out.numel(), prescale, postscale);
  return out;
}

class Adasum : public testing::TestWithParam<DType> {
 protected:
  TypedArray array(std::vector<double> values) const { return {GetParam(), values}; }
};

TEST_P(Adasum, AddsOrthogonalVectors) {
  const auto out = adasum_of({array({3, 0, 0, 1, 0}), array({0, 2, -1, 0, 0})});
  EXPECT_EQ(out.values(), (std::vector<double>{3, 2, -1, 1, 0}));
}

TEST_P(Adasum, AveragesEqualVectors) {
  const auto same = array({1, -2, 4, 0.5, 8, 1, 1, 2, 16});
  for (const std::size_t ranks : {1u, 2u, 3u, 4u, 7u}) {
    EXPECT_EQ(adasum_of(std::vector<TypedArray>(ranks, same)), same) << ranks;
  }
}

// a.b = 4, |a|^2 = 4, |b|^2 = 8: a / 2 + 3 b / 4.
TEST_P(Adasum, WeighsEachVectorByItsNorm) {
  const auto out = adasum_of({array({2, 0}), array({2, 2})});
  EXPECT_EQ(out.values(), (std::vector<double>{2.5, 1.5}));
}

TEST_P(Adasum, ZerosAreNeutralOnEitherSide) {
  const auto vector = array({1, -3, 0.25});
  const auto zeros = array({0, 0, 0});
  EXPECT_EQ(adasum_of({vector, zeros}), vector);
  EXPECT_EQ(adasum_of({zeros, zeros, vector}), vector);
  EXPECT_EQ(adasum_of({zeros, zeros}), zeros);
}

TEST_P(Adasum, ScalesInputsAndTheResult) {
  const auto out = adasum_of({array({1, 0}), array({1, 1})}, 2.0, 4.0);
  EXPECT_EQ(out.values(), (std::vector<double>{10, 6}));
}

TEST_P(Adasum, MayWriteOverAnyOneOfItsInputs) {
  const std::vector<TypedArray> inputs = {array({1, 0, 2}), array({1, 1, 0}), array({0, 4, 1})};
  const auto apart = adasum_of(inputs);
  for (std::size_t target = 0; target < inputs.size(); ++target) {
    auto copies = inputs;
    adasum(GetParam(), pointers(copies), copies[target].data(), 3, 1.0, 1.0);
    EXPECT_EQ(copies[target], apart) << target;
  }
}

TEST_P(Adasum, SpreadsAnInfinityAsNan) {
  const auto infinite = array({1, std::numeric_limits<double>::infinity()});
  for (const auto& out :
       {adasum_of({infinite, array({1, 1})}), adasum_of({array({0, 0}), infinite}),
        adasum_of({array({1, 1}), infinite})}) {
    EXPECT_TRUE(std::isnan(out.at(1)) || std::isinf(out.at(1)));
  }
}

TEST_P(Adasum, ProductsOfRangesAddUpToThoseOfTheWhole) {
  std::vector<double> a(2500);
  std::vector<double> b(2500);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<double>(i % 7) - 3;
    b[i] = static_cast<double>(i % 5) - 1;
  }
  const auto whole_a = array(a);
  const auto whole_b = array(b);
  AdasumProducts exact;
  for (std::size_t i = 0; i < a.size(); ++i) exact += {a[i] * b[i], a[i] * a[i], b[i] * b[i]};
  for (const std::int64_t cut : {0, 1, 8, 1021, 2500}) {
    const std::size_t offset = static_cast<std::size_t>(cut) * size_of(GetParam());
    auto sum = adasum_products(GetParam(), whole_a.data(), whole_b.data(), cut);
    sum += adasum_products(GetParam(), static_cast<const std::byte*>(whole_a.data()) + offset,
                           static_cast<const std::byte*>(whole_b.data()) + offset, 2500 - cut);
    EXPECT_EQ(sum.ab, exact.ab) << cut;
    EXPECT_EQ(sum.aa, exact.aa) << cut;
    EXPECT_EQ(sum.bb, exact.bb) << cut;
  }
}

TEST_P(Adasum, GivesTheSameBitsOnEveryInstructionSet) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  TypedArray a(GetParam(), 3001);
  TypedArray b(GetParam(), 3001);
  for (std::int64_t i = 0; i < 3001; ++i) {
    a.set(i, normal(random));
    b.set(i, normal(random));
  }
  std::vector<std::vector<double>> products;
  std::vector<TypedArray> combined;
  for (const Isa isa : {Isa::kBaseline, best_isa()}) {
    const auto sums = adasum_products(GetParam(), a.data(), b.data(), 3001, isa);
    products.push_back({sums.ab, sums.aa, sums.bb});
    TypedArray out(GetParam(), 3001);
    adasum_combine(GetParam(), a.data(), b.data(), {0.3, 0.7}, out.data(), 3001, isa);
    combined.push_back(out);
  }
  EXPECT_NE(products[0][0], 0);
  EXPECT_EQ(products[0], products[1]);
  EXPECT_EQ(combined[0], combined[1]);
}

// The formula in long double; the bound is that of one rounding to the dtype (and one to f64 or
// f32 before) of numbers below 8.
TEST_P(Adasum, StaysWithinItsRoundingBound) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  TypedArray a(GetParam(), 777);
  TypedArray b(GetParam(), 777);
  long double ab = 0, aa = 0, bb = 0;
  for (std::int64_t i = 0; i < 777; ++i) {
    a.set(i, uniform(random));
    b.set(i, uniform(random) + a.at(i));
    ab += static_cast<long double>(a.at(i)) * b.at(i);
    aa += static_cast<long double>(a.at(i)) * a.at(i);
    bb += static_cast<long double>(b.at(i)) * b.at(i);
  }
  const auto out = adasum_of({a, b});
  const double unit = GetParam() == DType::kF16    ? 0x1p-11
                      : GetParam() == DType::kBF16 ? 0x1p-8
                      : GetParam() == DType::kF32  ? 0x1p-24
                                                   : 0x1p-50;
  for (std::int64_t i = 0; i < 777; ++i) {
    const long double exact = (1 - ab / (2 * aa)) * a.at(i) + (1 - ab / (2 * bb)) * b.at(i);
    const auto bound =
        static_cast<double>(std::fabs(exact)) * unit * 1.01 + 0x1p-24 * unit + 0x1p-51;
    ASSERT_NEAR(out.at(i), static_cast<double>(exact), bound) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Floats, Adasum,
                         testing::Values(DType::kF16, DType::kBF16, DType::kF32, DType::kF64),
                         [](const auto& given) { return std::string(name_of(given.param)); });

// The products do not fit f16, whose largest number is 65504.
TEST(AdasumProducts, OfHalvesAreAccumulatedInF64) {
  const TypedArray big(DType::kF16, std::vector<double>(3000, 2048));
  const auto products = adasum_products(DType::kF16, big.data(), big.data(), 3000);
  EXPECT_EQ(products.ab, 3000.0 * 2048 * 2048);
}

TEST(AdasumLevels, PairNeighboursThenTheirWinners) {
  using Levels = std::vector<std::vector<AdasumPair>>;
  EXPECT_EQ(adasum_levels(1), Levels{});
  EXPECT_EQ(adasum_levels(2), (Levels{{{0, 1}}}));
  EXPECT_EQ(adasum_levels(4), (Levels{{{0, 1}, {2, 3}}, {{0, 2}}}));
  EXPECT_EQ(adasum_levels(7), (Levels{{{0, 1}, {2, 3}, {4, 5}}, {{0, 2}, {4, 6}}, {{0, 4}}}));
}

TEST(AdasumLevels, TakeEveryRankButTheFirstOnce) {
  for (int size = 1; size < 40; ++size) {
    std::vector<int> taken(static_cast<std::size_t>(size));
    for (const auto& level : adasum_levels(size)) {
      for (const auto& [left, right] : level) {
        EXPECT_EQ(taken[static_cast<std::size_t>(left)], 0) << left << " of " << size;
        ++taken[static_cast<std::size_t>(right)];
      }
    }
    EXPECT_EQ(taken[0], 0);
    for (std::size_t rank = 1; rank < taken.size(); ++rank) EXPECT_EQ(taken[rank], 1) << rank;
  }
}

TEST(AdasumOfOtherDTypes, IsRefusedByName) {
  const std::int32_t value = 1;
  std::int32_t out = 0;
  const void* const input = &value;
  EXPECT_THROW(adasum_products(DType::kI32, input, input, 1), InvalidArgumentError);
  EXPECT_THROW(adasum(DType::kI32, std::vector{input, input}, &out, 1, 1.0, 1.0),
               InvalidArgumentError);
  EXPECT_THROW(adasum(DType::kF32, {}, &out, 1, 1.0, 1.0), InvalidArgumentError);
}

}  // namespace
}  // namespace hvd::engine::host
