#include "horovod_cpp/autograd/modes.h"

#include <stdexcept>
#include <thread>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "test/horovod_cpp/autograd/values.h"

namespace hvd {
namespace {

TEST(NoGradGuard, NestsAndIsPerThread) {
  EXPECT_TRUE(grad_enabled());
  {
    NoGradGuard outer;
    {
      NoGradGuard inner;
      EXPECT_FALSE(grad_enabled());
    }
    EXPECT_FALSE(grad_enabled());
    bool other = false;
    std::thread([&] { other = grad_enabled(); }).join();
    EXPECT_TRUE(other);
  }
  EXPECT_TRUE(grad_enabled());
}

using testing::HasSubstr;

Tensor floats(Shape shape, std::uint64_t seed = 1) {
  return leaf(std::move(shape), -1.0, 1.0, seed).detach().to(DType::kF32);
}

Tensor float_leaf(Shape shape, std::uint64_t seed = 1) {
  return floats(std::move(shape), seed).requires_grad_();
}

TEST(AutocastGuard, NestsAndIsPerThreadAndEndsWithAnException) {
  EXPECT_FALSE(is_autocast_enabled());
  try {
    const AutocastGuard outer(DType::kF16);
    EXPECT_TRUE(is_autocast_enabled());
    EXPECT_EQ(autocast_dtype(), DType::kF16);
    {
      const AutocastGuard inner;
      EXPECT_EQ(autocast_dtype(), DType::kBF16);
      const AutocastGuard off(DType::kBF16, false);
      EXPECT_FALSE(is_autocast_enabled());
      EXPECT_EQ(matmul(floats({2, 2}), floats({2, 2})).dtype(), DType::kF32);
    }
    EXPECT_TRUE(is_autocast_enabled());
    EXPECT_EQ(autocast_dtype(), DType::kF16);
    bool other = true;
    std::thread([&] { other = is_autocast_enabled(); }).join();
    EXPECT_FALSE(other);
    throw std::runtime_error("leaves");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(is_autocast_enabled());
  EXPECT_EQ(autocast_dtype(), DType::kBF16);
}

TEST(AutocastGuard, RefusesADtypeThatIsNotHalfAndChangesNothing) {
  EXPECT_THAT(error_of([] { const AutocastGuard guard(DType::kF64); }),
              HasSubstr("autocast: dtype float64"));
  EXPECT_FALSE(is_autocast_enabled());
}

TEST(Autocast, ProductsComputeInTheLowerDtype) {
  const AutocastGuard autocast;
  const Tensor images = floats({2, 3, 5, 5});
  EXPECT_EQ(matmul(floats({2, 3}), floats({3, 2})).dtype(), DType::kBF16);
  EXPECT_EQ(matmul(floats({4, 2, 3}), floats({4, 3, 2})).dtype(), DType::kBF16);
  EXPECT_EQ(linear(floats({2, 3}), floats({4, 3}), floats({4})).dtype(), DType::kBF16);
  EXPECT_EQ(conv1d(floats({2, 3, 5}), floats({4, 3, 3}), floats({4})).dtype(), DType::kBF16);
  EXPECT_EQ(conv2d(images, floats({4, 3, 3, 3}), floats({4})).dtype(), DType::kBF16);
  EXPECT_EQ(conv_transpose2d(images, floats({3, 4, 3, 3}), floats({4})).dtype(), DType::kBF16);
}

TEST(Autocast, SumsSoftmaxAndLossesComputeInFloat32) {
  const Tensor half = floats({4, 3}).to(DType::kBF16);
  const Tensor targets = integers({0, 2, 1, 1}, {4});
  const AutocastGuard autocast;
  for (const Tensor& result :
       {softmax(half, 1), log_softmax(half, 0), sum(half), mean(half, {0}), prod(half), var(half),
        norm(half), cumsum(half, 0), cross_entropy(half, targets), nll_loss(half, targets),
        mse_loss(half, floats({4, 3})), mse_loss(floats({4, 3}), half), l1_loss(half, half),
        huber_loss(half, half), smooth_l1_loss(half, half), kl_div(half, half),
        binary_cross_entropy(sigmoid(half), sigmoid(floats({4, 3}, 2))),
        binary_cross_entropy_with_logits(half, half, floats({3}), LossReduction::kMean,
                                         floats({3}))}) {
    EXPECT_EQ(result.dtype(), DType::kF32);
  }
}

TEST(Autocast, OperandsOfTwoFloatingDtypesMeetInTheWider) {
  const Tensor half = floats({2, 2}).to(DType::kBF16);
  const Tensor single = floats({2, 2}, 2);
  const Tensor twice = single.to(DType::kF64);
  {
    const AutocastGuard autocast;
    for (const Tensor& result :
         {half + single, single - half, half * single, half / single, maximum(half, single),
          minimum(single, half), where(gt(half, single), half, single), concat({half, single}, 0),
          stack({single, half}, 0), half.to(DType::kF16) + half}) {
      EXPECT_EQ(result.dtype(), DType::kF32);
    }
    EXPECT_EQ((half + twice).dtype(), DType::kF64);
    EXPECT_EQ((half + half).dtype(), DType::kBF16);
    EXPECT_EQ(relu(half).dtype(), DType::kBF16);
    EXPECT_TRUE(bitwise_equal(half + single, half.to(DType::kF32) + single));
  }
  EXPECT_THAT(error_of([&] { half + single; }), HasSubstr("differ"));
}

TEST(Autocast, LeavesFloat64AndIntegersAlone) {
  const AutocastGuard autocast;
  const Tensor twice = leaf({2, 2});
  EXPECT_EQ(matmul(twice, twice).dtype(), DType::kF64);
  EXPECT_THROW(matmul(integers({1, 2, 3, 4}, {2, 2}), integers({1, 2, 3, 4}, {2, 2})),
               InvalidArgumentError);
}

TEST(Autocast, BackwardRunsInTheDtypesOfForwardAndLeavesGetFloat32) {
  const Tensor x = float_leaf({8, 6});
  const Tensor w = float_leaf({5, 6}, 2);
  const Tensor b = float_leaf({5}, 3);
  Tensor outside;
  {
    const AutocastGuard autocast;
    outside = sum(square(linear(x, w, b)));
    sum(square(linear(x, w, b))).backward();
  }
  const Tensor inside_b = b.grad().clone();
  Tensor(b).set_grad({});
  const Tensor inside_x = x.grad().clone();
  const Tensor inside_w = w.grad().clone();
  Tensor(x).set_grad({});
  Tensor(w).set_grad({});
  outside.backward();
  EXPECT_EQ(w.grad().dtype(), DType::kF32);
  EXPECT_TRUE(bitwise_equal(x.grad(), inside_x));
  EXPECT_TRUE(bitwise_equal(w.grad(), inside_w));
  EXPECT_TRUE(bitwise_equal(b.grad(), inside_b));
  // What left the product in backward was rounded to bfloat16.
  EXPECT_TRUE(bitwise_equal(w.grad(), w.grad().to(DType::kBF16).to(DType::kF32)));
}

TEST(Autocast, CastsAParameterOnceARegionAndAgainWhenItWasWritten) {
  Tensor w = float_leaf({2, 2});
  const Tensor x = floats({2, 2}, 3);
  const AutocastGuard autocast;
  const long before = w.handles();
  const Tensor first = matmul(x, w);
  const long kept = w.handles();
  EXPECT_GT(kept, before);
  const Tensor again = matmul(x, w);
  EXPECT_EQ(w.handles(), kept);  // no second cast points to the leaf
  EXPECT_TRUE(bitwise_equal(first, again));
  {
    const NoGradGuard no_grad;
    w.mul_(2.0);
  }
  EXPECT_TRUE(bitwise_equal(matmul(x, w), first * 2.0));
  {
    const AutocastGuard inner;  // not the outermost: keeps
  }
  EXPECT_GT(w.handles(), before);
  clear_autocast_cache();
}

TEST(Autocast, DropsTheCopiesWhenTheOutermostRegionEnds) {
  const Tensor w = float_leaf({2, 2});
  {
    const AutocastGuard autocast;
    matmul(w, w);
    EXPECT_GT(w.handles(), 1);
  }
  EXPECT_EQ(w.handles(), 1);
  const AutocastGuard uncached(DType::kBF16, true, false);
  matmul(w, w);
  EXPECT_EQ(w.handles(), 1);
}

TEST(Autocast, SeveralGraphsOfARegionShareACopyAndEachGetsItsBackward) {
  const Tensor w = float_leaf({3, 3});
  const Tensor x = floats({3, 3}, 4);
  const AutocastGuard autocast;
  {
    const NoGradGuard no_grad;  // a copy made here is in no graph
    EXPECT_FALSE(matmul(x, w).requires_grad());
  }
  const Tensor a = sum(matmul(x, w));
  const Tensor b = sum(matmul(x, w));
  a.backward();
  const Tensor once = w.grad().clone();
  b.backward();
  EXPECT_TRUE(bitwise_equal(w.grad(), once * 2.0));
  sum(matmul(x, w)).backward();
  EXPECT_TRUE(bitwise_equal(w.grad(), once * 3.0));
}

TEST(Autocast, GradientsCanBeDifferentiated) {
  const Tensor x = float_leaf({4, 4});
  const AutocastGuard autocast;
  const Tensor y = sum(square(matmul(x, x)));
  const Tensor gradient = grad({y}, {x}, {}, true, true)[0];
  EXPECT_EQ(gradient.dtype(), DType::kF32);
  sum(square(gradient)).backward();
  EXPECT_EQ(x.grad().dtype(), DType::kF32);
}

// Every operation of the policy, in a region and in float64: value and gradients.
using Case = std::pair<const char*, std::function<Tensor(const std::vector<Tensor>&)>>;

std::vector<std::tuple<Case, std::vector<Shape>>> cases() {
  const Tensor targets = integers({1, 0, 2, 1, 2, 0}, {6});
  return {
      {{"matmul", [](auto& in) { return matmul(in[0], in[1]); }}, {{6, 20}, {20, 7}}},
      {{"transposed", [](auto& in) { return matmul(in[0].t(), in[1]); }}, {{20, 6}, {20, 7}}},
      {{"batched", [](auto& in) { return matmul(in[0], in[1].transpose(1, 2)); }},
       {{3, 6, 20}, {3, 7, 20}}},
      {{"linear", [](auto& in) { return linear(in[0], in[1], in[2]); }}, {{6, 20}, {7, 20}, {7}}},
      {{"conv1d", [](auto& in) { return conv1d(in[0], in[1], in[2], 2, 1); }},
       {{2, 3, 9}, {4, 3, 3}, {4}}},
      {{"conv2d", [](auto& in) { return conv2d(in[0], in[1], in[2], 1, 1); }},
       {{2, 3, 6, 6}, {4, 3, 3, 3}, {4}}},
      {{"grouped", [](auto& in) { return conv2d(in[0], in[1], {}, 2, 1, 1, 2); }},
       {{2, 4, 6, 6}, {6, 2, 3, 3}}},
      {{"conv_transpose2d", [](auto& in) { return conv_transpose2d(in[0], in[1], in[2], 2, 1); }},
       {{2, 3, 5, 5}, {3, 4, 3, 3}, {4}}},
      {{"softmax", [](auto& in) { return softmax(matmul(in[0], in[1]), 1); }}, {{6, 8}, {8, 5}}},
      {{"cross_entropy", [=](auto& in) { return cross_entropy(linear(in[0], in[1]), targets); }},
       {{6, 8}, {3, 8}}},
      {{"mse_loss", [](auto& in) { return mse_loss(matmul(in[0], in[1]), in[2]); }},
       {{6, 8}, {8, 3}, {6, 3}}},
      {{"sum", [](auto& in) { return sum(matmul(in[0], in[1]), {0}); }}, {{6, 8}, {8, 5}}},
      {{"mean",
        [](auto& in) {
          return mean(conv2d(in[0], in[1]), {2, 3});
        }},
       {{2, 3, 6, 6}, {4, 3, 3, 3}}},
      {{"pool", [](auto& in) { return avg_pool2d(conv2d(in[0], in[1]), {.kernel_size = 2}); }},
       {{2, 3, 6, 6}, {4, 3, 3, 3}}},
      {{"mixed", [](auto& in) { return tanh(matmul(in[0], in[1])) * in[2]; }},
       {{6, 8}, {8, 5}, {6, 5}}},
  };
}

double distance(const Tensor& given, const Tensor& expected) {
  return norm(given.detach().to(DType::kF64) - expected.detach()).item() /
         norm(expected.detach()).item();
}

TEST(Autocast, ValuesAndGradientsOfEveryOperationAreThoseOfFloat64WithinRounding) {
  constexpr double kTolerance = 1.5e-2;  // of the norm; bfloat16 rounds to 1/256
  for (const auto& [what, shapes] : cases()) {
    std::vector<Tensor> exact, given;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      exact.push_back(leaf(shapes[i], -1.0, 1.0, i + 1));
      given.push_back(exact.back().detach().to(DType::kF32).requires_grad_());
    }
    const Tensor expected = what.second(exact);
    Tensor result;
    {
      const AutocastGuard autocast;
      result = what.second(given);
    }
    EXPECT_LT(distance(result, expected), kTolerance) << what.first;
    const Tensor weights = leaf(expected.shape(), -1.0, 1.0, 9).detach();
    expected.backward(weights);
    result.backward(weights.to(result.dtype()));
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      ASSERT_EQ(given[i].grad().dtype(), DType::kF32) << what.first;
      EXPECT_LT(distance(given[i].grad(), exact[i].grad()), kTolerance) << what.first << " " << i;
    }
  }
}

}  // namespace
}  // namespace hvd
