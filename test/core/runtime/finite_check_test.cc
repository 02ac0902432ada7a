#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/base/half.h"
#include "core/base/status.h"
#include "core/runtime/submission.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/core/runtime/submissions.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using test::allreduce;
using test::error_of;
using test::run_ranks;
using test::shared;
using test::SimRanks;
using testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
bool finite(std::vector<T> values, DType dtype) {
  return is_finite({values.data(), static_cast<std::int64_t>(values.size()), dtype, {}});
}

TEST(IsFinite, KnowsEveryFloatingDtype) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_TRUE(finite<float>({0, -kLargest, 1e-40f}, DType::kF32));
  EXPECT_FALSE(finite<float>({0, 1, kNan}, DType::kF32));
  EXPECT_FALSE(finite<float>({-kInfinity, 0}, DType::kF32));
  EXPECT_TRUE(finite<double>({std::numeric_limits<double>::max()}, DType::kF64));
  EXPECT_FALSE(finite<double>({1, std::numeric_limits<double>::quiet_NaN()}, DType::kF64));
  EXPECT_TRUE(finite<Float16>({{0x7bff}, {0xfbff}}, DType::kF16));
  EXPECT_FALSE(finite<Float16>({{0}, {0xfc00}}, DType::kF16));
  EXPECT_TRUE(finite<BFloat16>({{0x7f7f}}, DType::kBF16));
  EXPECT_FALSE(finite<BFloat16>({{0x7fc0}}, DType::kBF16));
  EXPECT_TRUE(finite<std::complex<float>>({{1, 2}}, DType::kC64));
  EXPECT_FALSE(finite<std::complex<float>>({{1, 2}, {0, kNan}}, DType::kC64));
  EXPECT_FALSE(finite<std::complex<double>>({{0, 0}, {kInfinity, 0}}, DType::kC128));
  EXPECT_TRUE(finite<std::int64_t>({-1}, DType::kI64));
  EXPECT_TRUE(finite<float>({}, DType::kF32));
}

Config checking() {
  Config config;
  config.check_nan = true;
  return config;
}

TEST(CheckNan, EveryRankGetsAnErrorThatNamesTheRankAndTheTensorAndTheJobGoesOn) {
  for (const int size : {1, 2, 5}) {
    SimRanks ranks(size, {}, checking());
    const Rank culprit = size - 1;
    run_ranks(size, [&](Rank rank) {
      const auto sum = [&](float value) {
        return ranks[rank].submit(allreduce("allreduce.w", shared<float>({1, value})));
      };
      sum(2).wait();
      EXPECT_EQ(
          error_of(sum(rank == culprit ? kNan : 2)),
          "rank " + std::to_string(culprit) + "'s 'w' (allreduce) is not finite (submission 2)");
      const auto again = shared<float>({1});
      ranks[rank].submit(allreduce("allreduce.w", again)).wait();
    });
  }
}

TEST(CheckNan, OfSeveralRanksTheFirstIsNamed) {
  SimRanks ranks(3, {}, checking());
  run_ranks(3, [&](Rank rank) {
    const Handle handle =
        ranks[rank].submit(allreduce("w", shared<float>({rank > 0 ? kInfinity : 0})));
    EXPECT_EQ(error_of(handle), "rank 1's 'w' is not finite (submission 1)");
  });
}

// As optimizers do it: several gradients in one call, again and again.
TEST(CheckNan, NamesTheGradientAndTheStep) {
  SimRanks ranks(2, {}, checking());
  run_ranks(2, [&](Rank rank) {
    const auto labels = std::make_shared<CallLabels>();
    labels->names = {"c1.weight", "c1.bias"};
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const bool bad = step == 3 && rank == 1;
      Submission group = allreduce("allreduce.c1.weight and 1 more", shared<float>({1}));
      Submission other = allreduce("", shared<float>({bad ? kNan : 1}));
      group.parts.push_back(other.parts.front());
      group.request.shapes.push_back(other.request.shapes.front());
      group.parts.back().number = 1;
      if (step != 1) group.labels = labels;
      group.call = step;
      const Handle handle = ranks[rank].submit(std::move(group));
      if (step < 3) {
        handle.wait();
      } else {
        EXPECT_EQ(error_of(handle), "rank 1's gradient of 'c1.bias' is not finite (step 3)");
      }
    }
  });
}

TEST(CheckNan, InfinitiesMayBeComparedAndAreNotLookedForUnlessItIsAskedFor) {
  SimRanks checks(2, {}, checking());
  run_ranks(2, [&](Rank rank) {
    const auto values = shared<float>({rank == 0 ? -kInfinity : 3});
    checks[rank].submit(allreduce("w", values, ReduceOp::kMax)).wait();
    EXPECT_THAT(*values, ElementsAre(3));
  });
  SimRanks ranks(2);
  run_ranks(2, [&](Rank rank) {
    const auto values = shared<float>({kInfinity});
    ranks[rank].submit(allreduce("w", values)).wait();
    EXPECT_THAT(*values, ElementsAre(kInfinity));
  });
}

}  // namespace
}  // namespace hvd::engine
