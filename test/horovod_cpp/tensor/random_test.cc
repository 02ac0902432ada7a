#include "horovod_cpp/tensor/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "core/base/status.h"

namespace hvd {
namespace {

using V = std::vector<double>;

double mean_of(const V& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(Generator, GivesTheKnownAnswersOfPhilox) {
  // Philox 4x32-10 with key 0 and counter 0 (the reference's kat_vectors) starts with the words
  // 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
  Generator generator(0);
  const V four = rand({4}, DType::kF32, generator).to_vector();
  const std::uint32_t words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(four[i], (words[i] >> 8) * 0x1p-24);
}

TEST(Generator, ContinuesFromASavedState) {
  Generator generator(5);
  rand({7}, DType::kF32, generator);
  const Generator::State state = generator.state();
  const Tensor expected = randn({5}, DType::kF32, generator);
  Generator other(1);
  other.set_state(state);
  EXPECT_TRUE(bitwise_equal(randn({5}, DType::kF32, other), expected));
  EXPECT_EQ(other.state(), generator.state());
}

TEST(Generator, SeedsGiveDifferentStreams) {
  Generator a(1);
  Generator b(2);
  EXPECT_FALSE(bitwise_equal(rand({8}, DType::kF32, a), rand({8}, DType::kF32, b)));
}

TEST(Generator, NeverRepeatsAcrossCalls) {
  Generator generator(1);
  const V first = rand({6}, DType::kF32, generator).to_vector();
  const V second = rand({6}, DType::kF32, generator).to_vector();
  for (const double value : second) EXPECT_EQ(std::count(first.begin(), first.end(), value), 0);
}

TEST(Uniform, FillsItsRangeEvenly) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Generator generator(11);
    const V values = rand({40000}, dtype, generator).to_vector();
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 0.0);
    EXPECT_LT(*std::max_element(values.begin(), values.end()), 1.0);
    EXPECT_NEAR(mean_of(values), 0.5, 0.005);
    const auto low = std::count_if(values.begin(), values.end(), [](double v) { return v < 0.1; });
    EXPECT_NEAR(static_cast<double>(low), 4000.0, 250.0);
  }
  Generator generator(1);
  const Tensor a = Tensor::empty({1000});
  uniform_(a, -3.0, -2.0, generator);
  for (const double value : a.to_vector()) {
    EXPECT_GE(value, -3.0);
    EXPECT_LE(value, -2.0);
  }
}

TEST(Normal, HasItsMomentsAndTails) {
  Generator generator(12);
  const Tensor a = Tensor::empty({100000}, DType::kF64);
  normal_(a, 3.0, 2.0, generator);
  V values = a.to_vector();
  EXPECT_NEAR(mean_of(values), 3.0, 0.03);
  double square = 0;
  double fourth = 0;
  int outside = 0;
  for (const double value : values) {
    const double z = (value - 3.0) / 2.0;
    square += z * z;
    fourth += z * z * z * z;
    outside += std::abs(z) > 2.0 ? 1 : 0;
  }
  EXPECT_NEAR(square / 100000, 1.0, 0.02);
  EXPECT_NEAR(fourth / 100000, 3.0, 0.15);
  EXPECT_NEAR(outside, 4550, 250);
}

TEST(Normal, IsBoxMullerToTheLastDigits) {
  Generator generator(4);
  Generator again(4);
  const V uniforms = rand({20}, DType::kF64, generator).to_vector();
  const V normals = randn({20}, DType::kF64, again).to_vector();
  for (std::size_t i = 0; i < 20; i += 2) {
    const double radius = std::sqrt(-2 * std::log(1 - uniforms[i]));
    const double angle = 2 * std::acos(-1.0) * uniforms[i + 1];
    EXPECT_NEAR(normals[i], radius * std::cos(angle), 1e-14);
    EXPECT_NEAR(normals[i + 1], radius * std::sin(angle), 1e-14);
  }
}

TEST(Normal, FillsStridedTensors) {
  Tensor a = Tensor::zeros({4, 2});
  Generator generator(4);
  normal_(a.select(1, 0), 100.0, 1.0, generator);
  const V values = a.to_vector();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(values[i] > 50, i % 2 == 0);
}

TEST(Random, IsForFloatingDtypes) {
  EXPECT_THROW(rand({2}, DType::kI32), InvalidArgumentError);
  EXPECT_THROW(normal_(Tensor::zeros({2}, DType::kU8)), InvalidArgumentError);
}

TEST(Bernoulli, HitsItsProbability) {
  Generator generator(3);
  EXPECT_NEAR(mean_of(bernoulli({20000}, 0.3, DType::kF32, generator).to_vector()), 0.3, 0.01);
  EXPECT_EQ(mean_of(bernoulli({100}, 0.0, DType::kF32, generator).to_vector()), 0.0);
  EXPECT_EQ(mean_of(bernoulli({100}, 1.0, DType::kF32, generator).to_vector()), 1.0);
  EXPECT_THROW(bernoulli({1}, -0.1), InvalidArgumentError);
  EXPECT_THROW(bernoulli({1}, std::nan("")), InvalidArgumentError);
}

TEST(Below, IsUnbiasedOverAwkwardBounds) {
  Generator generator(9);
  std::vector<int> counts(7);
  for (int i = 0; i < 14000; ++i) ++counts[generator.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 2000, 200);
  EXPECT_EQ(generator.below(1), 0u);
  EXPECT_THROW(generator.below(0), InvalidArgumentError);
}

TEST(Permutation, HasEveryIndexOnceAndDependsOnTheSeed) {
  Generator a(1);
  Generator b(1);
  Generator c(2);
  const auto order = a.permutation(100);
  EXPECT_EQ(order, b.permutation(100));
  EXPECT_NE(order, c.permutation(100));
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(sorted[static_cast<std::size_t>(i)], i);
  EXPECT_NE(order, sorted);
  EXPECT_TRUE(a.permutation(0).empty());
  EXPECT_THROW(a.permutation(-1), InvalidArgumentError);
}

TEST(Permutation, ReachesAllOrdersEquallyOften) {
  Generator generator(6);
  std::vector<int> counts(6);
  for (int i = 0; i < 6000; ++i) {
    const auto p = generator.permutation(3);
    ++counts[static_cast<std::size_t>(p[0] * 2 + (p[1] > p[2] ? 1 : 0))];
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 130);
}

TEST(Randint, StaysInRange) {
  Generator generator(6);
  const V values = randint(-2, 2, {400}, generator).to_vector();
  EXPECT_EQ(*std::min_element(values.begin(), values.end()), -2);
  EXPECT_EQ(*std::max_element(values.begin(), values.end()), 1);
  EXPECT_THROW(randint(2, 2, {1}), InvalidArgumentError);
  EXPECT_EQ(randperm(5).numel(), 5);
}

TEST(ManualSeed, SeedsThisThreadAlone) {
  manual_seed(42);
  const Tensor expected = rand({4});
  manual_seed(42);
  Tensor elsewhere;
  std::thread([&] {
    manual_seed(42);
    elsewhere = rand({4});
    manual_seed(1);
  }).join();
  EXPECT_TRUE(bitwise_equal(elsewhere, expected));
  EXPECT_TRUE(bitwise_equal(rand({4}), expected));
}

}  // namespace
}  // namespace hvd
