#include "horovod_cpp/autograd/functions/functions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/status.h"
#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/autograd/values.h"

namespace hvd {
namespace {

// Of one operand that broadcasts reference_test.cc has the gradients.
TEST(Arithmetic, BroadcastsBothOperandsAndTakesNumbers) {
  gradcheck([](const Inputs& x) { return add(x[0], x[1]); }, {leaf({2, 1}), leaf({1, 3})});
  gradcheck([](const Inputs& x) { return mul(x[0], x[1]); }, {leaf({2, 3}), leaf({})});
  gradcheck([](const Inputs& x) { return mul(x[0], x[1]); }, {leaf({2, 3, 2}), leaf({3, 1})});
  gradcheck([](const Inputs& x) { return mul(x[0], x[0]); }, {leaf({3})});
  gradcheck([](const Inputs& x) { return x[0] + 2.0; }, {leaf({4})});
  gradcheck([](const Inputs& x) { return 1.0 - x[0]; }, {leaf({3})});
  gradcheck([](const Inputs& x) { return 1.0 / x[0]; }, {leaf({3}, 1, 2)});
}

TEST(Pow, GradientsOfNumbersWithRulesOfTheirOwnMatchDifferences) {
  gradcheck([](const Inputs& x) { return pow(x[0], 2.0); }, {leaf({2, 2})});
  gradcheck([](const Inputs& x) { return pow(x[0], -0.5); }, {leaf({2, 2}, 1, 2)});
  gradcheck([](const Inputs& x) { return pow(x[0], 0.0); }, {leaf({2})});
}

TEST(Elementwise, GivesFloatValuesToWithinAFewUlps) {
  const Tensor x = values({-2.5, 0.1, 1.5, 20.0}, {4}).to(DType::kF32);
  const V in = x.to_vector();
  for (std::size_t i = 0; i < in.size(); ++i) {
    EXPECT_NEAR(exp(x).to_vector()[i] / std::exp(in[i]), 1.0, 4e-7);
    EXPECT_NEAR(tanh(x).to_vector()[i], std::tanh(in[i]), 4e-7);
  }
}

TEST(Elementwise, KeepsNaN) {
  const double nan = std::nan("");
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Tensor a = values({nan, 1.0}, {2}).to(dtype);
    EXPECT_TRUE(std::isnan(relu(a).to_vector()[0]));
    EXPECT_TRUE(std::isnan(exp(a).to_vector()[0]));
    EXPECT_TRUE(std::isnan(tanh(a).to_vector()[0]));
    EXPECT_TRUE(std::isnan(sigmoid(a).to_vector()[0]));
  }
}

TEST(Elementwise, IntegersAddAndMultiplyButDoNotDivide) {
  const Tensor a = Tensor::arange(4, DType::kI32);
  EXPECT_EQ((a * a + 1).to_vector(), (V{1, 2, 5, 10}));
  EXPECT_EQ((-a).to_vector(), (V{0, -1, -2, -3}));
  EXPECT_THROW(div(a, a), InvalidArgumentError);
  EXPECT_THROW(exp(a), InvalidArgumentError);
  EXPECT_THROW(a + 0.5, InvalidArgumentError);
}

TEST(Elementwise, RefusesMixedDtypesAndNamesBoth) {
  EXPECT_NE(error_of([] {
              add(Tensor::ones({2}), Tensor::ones({2}, DType::kF64));
            }).find("float32 and float64"),
            std::string::npos);
}

TEST(Elementwise, RefusesShapesThatDoNotBroadcastAndNamesBoth) {
  EXPECT_EQ(error_of([] {
              mul(Tensor::ones({2, 3}), Tensor::ones({2}));
            }),
            "mul: shapes [2, 3] and [2] do not broadcast");
}

TEST(Elementwise, ReadsStridedOperands) {
  const Tensor a = values({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ((a.t() + a.t()).to_vector(), (V{2, 8, 4, 10, 6, 12}));
  EXPECT_EQ((a.slice(1, 1, 3) * a.slice(1, 0, 2)).to_vector(), (V{2, 6, 20, 30}));
  EXPECT_EQ(exp(a.t() * 0.0).to_vector(), V(6, 1.0));
}

TEST(Matmul, MultipliesAndDifferentiates) {
  const Tensor a = values({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor b = values({1, 0, 2, 1, 0, 3}, {3, 2});
  EXPECT_EQ(matmul(a, b).to_vector(), (V{5, 11, 14, 23}));
  EXPECT_EQ(matmul(a.t(), a).to_vector(), (V{17, 22, 27, 22, 29, 36, 27, 36, 45}));
  gradcheck([](const Inputs& x) { return matmul(x[0].t(), x[1].slice(1, 1, 3)); },
            {leaf({3, 2}), leaf({3, 4})});
}

TEST(Matmul, RefusesWhatDoesNotFit) {
  EXPECT_THROW(matmul(Tensor::ones({2, 3}), Tensor::ones({2, 3})), InvalidArgumentError);
  EXPECT_THROW(matmul(Tensor::ones({2}), Tensor::ones({3, 1})), InvalidArgumentError);
  EXPECT_THROW(matmul(Tensor::ones({}), Tensor::ones({3, 1})), InvalidArgumentError);
  EXPECT_THROW(matmul(Tensor::ones({2, 1, 3}), Tensor::ones({3, 3, 1})), InvalidArgumentError);
  EXPECT_THROW(matmul(Tensor::ones({1, 1}, DType::kI64), Tensor::ones({1, 1}, DType::kI64)),
               InvalidArgumentError);
}

TEST(Matmul, OfNothingIsZero) {
  EXPECT_EQ(matmul(Tensor::ones({2, 0}), Tensor::ones({0, 2})).to_vector(), V(4, 0.0));
  EXPECT_EQ(matmul(Tensor::ones({0, 3}), Tensor::ones({3, 2})).shape(), (Shape{0, 2}));
}

TEST(Linear, IsInputTimesTransposedWeightPlusBias) {
  const Tensor x = values({1, 2}, {1, 2});
  const Tensor w = values({1, 1, 2, 0, 0, 3}, {3, 2});
  EXPECT_EQ(linear(x, w, values({10, 20, 30}, {3})).to_vector(), (V{13, 22, 36}));
  EXPECT_EQ(linear(x, w).to_vector(), (V{3, 2, 6}));
  gradcheck([](const Inputs& i) { return linear(i[0], i[1], i[2]); },
            {leaf({4, 3}), leaf({2, 3}), leaf({2})});
  gradcheck([](const Inputs& i) { return linear(i[0], i[1]); }, {leaf({4, 3}), leaf({2, 3})});
  EXPECT_THROW(linear(x, w, Tensor::ones({2}, DType::kF64)), InvalidArgumentError);
}

TEST(Sum, OverAnyAxes) {
  const Tensor a = values({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(sum(a).item(), 21);
  EXPECT_EQ(sum(a).shape(), Shape{});
  EXPECT_EQ(sum(a, {0}).to_vector(), (V{5, 7, 9}));
  EXPECT_EQ(sum(a, {-1}).to_vector(), (V{6, 15}));
  EXPECT_EQ(sum(a, {1}, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(sum(a.t(), {0}).to_vector(), (V{6, 15}));
  EXPECT_EQ(sum(Tensor::arange(5, DType::kU8)).dtype(), DType::kI64);
  EXPECT_EQ(sum(Tensor::full({1000}, 255, DType::kU8)).item(), 255000);
  EXPECT_EQ(sum(Tensor::ones({0, 3}), {0}).to_vector(), V(3, 0.0));
  EXPECT_THROW(sum(a, {0, 0}), InvalidArgumentError);
  EXPECT_THROW(sum(a, {2}), InvalidArgumentError);
  gradcheck([](const Inputs& x) { return sum(x[0]); }, {leaf({2, 3})});
}

TEST(Sum, OfManyFloatsLosesLittle) {
  const Tensor tenths = Tensor::full({1 << 20}, 0.1);
  EXPECT_NEAR(sum(tenths).item() / ((1 << 20) * static_cast<double>(0.1f)), 1.0, 1e-6);
}

TEST(Mean, DividesByTheCount) {
  const Tensor a = values({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(mean(a).item(), 2.5);
  EXPECT_EQ(mean(a, {0}).to_vector(), (V{2, 3}));
  EXPECT_THROW(mean(Tensor::arange(3)), InvalidArgumentError);
}

TEST(Argmax, IsTheFirstLargestAlongTheAxis) {
  const Tensor a = values({1, 5, 5, 9, 2, 3}, {2, 3});
  EXPECT_EQ(argmax(a, 1).to_vector(), (V{1, 0}));
  EXPECT_EQ(argmax(a, 0).to_vector(), (V{1, 0, 0}));
  EXPECT_EQ(argmax(a, -1).dtype(), DType::kI64);
  EXPECT_EQ(argmax(Tensor::arange(4, DType::kU8), 0).item(), 3);
  EXPECT_EQ(argmax(values({1, std::nan(""), 9}, {3}), 0).item(), 1);
  EXPECT_THROW(argmax(Tensor::ones({2, 0}), 1), InvalidArgumentError);
  EXPECT_THROW(max(Tensor::ones({0})), InvalidArgumentError);
}

TEST(Softmax, SumsToOneAndDoesNotOverflow) {
  const Tensor a = values({1000, 1000, 0, 0}, {2, 2});
  EXPECT_EQ(softmax(a, 1).to_vector(), V(4, 0.5));
  EXPECT_EQ(softmax(a, 0).to_vector(), (V{1, 1, 0, 0}));
  gradcheck([](const Inputs& x) { return softmax(x[0], 1); }, {leaf({2, 4})});
  gradcheck([](const Inputs& x) { return softmax(x[0], 0); }, {leaf({3, 2})});
}

TEST(LogSoftmax, IsTheLogarithmOfSoftmax) {
  const Tensor a = leaf({3, 5}).detach();
  const V expected = log(softmax(a, 1)).to_vector();
  const V given = log_softmax(a, 1).to_vector();
  for (std::size_t i = 0; i < given.size(); ++i) EXPECT_NEAR(given[i], expected[i], 1e-14);
  gradcheck([](const Inputs& x) { return log_softmax(x[0], 1); }, {leaf({2, 4})});
  gradcheck([](const Inputs& x) { return log_softmax(x[0], 1); }, {leaf({2, 3, 2})});
}

TEST(Concat, JoinsAndSplitsTheGradient) {
  const Tensor a = values({1, 2}, {1, 2});
  const Tensor b = values({3, 4, 5, 6}, {2, 2});
  EXPECT_EQ(concat({a, b}, 0).to_vector(), (V{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(concat({b, b.t()}, 1).to_vector(), (V{3, 4, 3, 5, 5, 6, 4, 6}));
  gradcheck(
      [](const Inputs& x) {
        return concat({x[0], x[1], x[0]}, 1);
      },
      {leaf({2, 1}), leaf({2, 3})});
  EXPECT_THROW(concat({a, b}, 1), InvalidArgumentError);
  EXPECT_THROW(concat({}, 0), InvalidArgumentError);
  EXPECT_THROW(concat({a, a.reshape({2})}, 0), InvalidArgumentError);
}

TEST(Stack, AddsAnAxis) {
  const Tensor a = values({1, 2}, {2});
  EXPECT_EQ(stack({a, a, a}, 0).shape(), (Shape{3, 2}));
  EXPECT_EQ(stack({a, a * 2}, 1).to_vector(), (V{1, 2, 2, 4}));
  gradcheck([](const Inputs& x) { return stack({x[0], x[1]}, -1); }, {leaf({3}), leaf({3})});
}

TEST(Dropout, ZeroesAShareAndScalesTheRest) {
  manual_seed(7);
  const Tensor ones = Tensor::ones({10000});
  const V out = dropout(ones, 0.25, true).to_vector();
  int zeros = 0;
  for (const double value : out) {
    if (value == 0.0) {
      ++zeros;
    } else {
      EXPECT_NEAR(value, 1 / 0.75, 1e-6);
    }
  }
  EXPECT_NEAR(zeros, 2500, 200);
  EXPECT_TRUE(dropout(ones, 0.25, false).is(ones));
  EXPECT_EQ(sum(dropout(ones, 1.0, true)).item(), 0);
  EXPECT_THROW(dropout(ones, 1.5, true), InvalidArgumentError);
}

TEST(Dropout, GivesTheGradientItsOwnMask) {
  manual_seed(3);
  Tensor x = Tensor::ones({100}).requires_grad_();
  const Tensor y = dropout(x, 0.5, true);
  sum(y).backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), y.detach()));
}

TEST(CrossEntropy, IsTheMeanNegativeLogProbability) {
  const Tensor logits = values({0, 0, std::log(3.0), 0}, {2, 2});
  const Tensor targets = Tensor::from(std::span<const std::int64_t>({{0, 0}}), {2});
  EXPECT_NEAR(cross_entropy(logits, targets).item(), (std::log(2.0) - std::log(0.75)) / 2, 1e-14);
  gradcheck([&](const Inputs& x) { return cross_entropy(x[0], targets); }, {leaf({2, 5})});
}

TEST(CrossEntropy, RefusesTargetsThatAreNoClass) {
  const Tensor logits = Tensor::zeros({2, 3});
  const auto with = [&](std::vector<std::int64_t> targets) {
    const auto count = static_cast<std::int64_t>(targets.size());
    return cross_entropy(logits, Tensor::from(std::span<const std::int64_t>(targets), {count}));
  };
  EXPECT_THROW(with({0, 3}), InvalidArgumentError);
  EXPECT_THROW(with({-1, 0}), InvalidArgumentError);
  EXPECT_THROW(with({0}), InvalidArgumentError);
  EXPECT_THROW(cross_entropy(logits, Tensor::zeros({2})), InvalidArgumentError);
  EXPECT_NO_THROW(with({0, 2}));
}

TEST(MseLoss, IsTheMeanSquare) {
  EXPECT_EQ(mse_loss(values({1, 2}, {2}), values({3, 2}, {2})).item(), 2.0);
  gradcheck([](const Inputs& x) { return mse_loss(x[0], x[1]); },
            {leaf({2, 3}), leaf({2, 3}, 0, 1, 5)});
  EXPECT_THROW(mse_loss(Tensor::ones({2}), Tensor::ones({2, 1})), InvalidArgumentError);
}

TEST(Gradcheck, SeesAWrongGradient) {
  // detach() hides one of two paths from backward.
  EXPECT_THROW(gradcheck([](const Inputs& x) { return x[0] * x[0].detach(); }, {leaf({2})}),
               InvalidArgumentError);
}

TEST(Views, AreDifferentiable) {
  gradcheck([](const Inputs& x) { return x[0].reshape({3, -1}); }, {leaf({2, 6})});
  gradcheck([](const Inputs& x) { return x[0].t().reshape({12}) * x[0].flatten(); },
            {leaf({2, 6})});
  gradcheck([](const Inputs& x) { return x[0].permute({2, 0, 1}); }, {leaf({2, 3, 4})});
  gradcheck([](const Inputs& x) { return x[0].slice(1, 1, -1); }, {leaf({2, 4})});
  gradcheck([](const Inputs& x) { return x[0].select(0, -1); }, {leaf({2, 4})});
  gradcheck(
      [](const Inputs& x) {
        return x[0].unsqueeze(1).squeeze(1).expand({3, 2});
      },
      {leaf({2})});
  gradcheck([](const Inputs& x) { return x[0].t().contiguous().clone(); }, {leaf({2, 3})});
}

TEST(To, PassesTheGradientBackInTheOldDtype) {
  Tensor x = Tensor::ones({2}).requires_grad_();
  sum(x.to(DType::kF64) * 3.0).backward();
  EXPECT_EQ(x.grad().dtype(), DType::kF32);
  EXPECT_EQ(x.grad().to_vector(), V(2, 3.0));
}

}  // namespace
}  // namespace hvd
