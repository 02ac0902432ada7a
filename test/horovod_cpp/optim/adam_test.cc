#include "horovod_cpp/optim/optimizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/status.h"

namespace hvd {
namespace optim {
namespace {

// The paper's algorithm, term by term, on one number.
class ReferenceAdam {
 public:
  ReferenceAdam(double value, const AdamOptions& options) : value_(value), options_(options) {}

  double step(double grad) {
    const auto [beta1, beta2] = options_.betas;
    grad += options_.weight_decay * value_;
    ++steps_;
    mean_ = beta1 * mean_ + (1 - beta1) * grad;
    square_ = beta2 * square_ + (1 - beta2) * grad * grad;
    const double unbiased_mean = mean_ / (1 - std::pow(beta1, steps_));
    const double unbiased_square = square_ / (1 - std::pow(beta2, steps_));
    value_ -= options_.lr * unbiased_mean / (std::sqrt(unbiased_square) + options_.eps);
    return value_;
  }

 private:
  double value_;
  AdamOptions options_;
  int steps_ = 0;
  double mean_ = 0;
  double square_ = 0;
};

class AdamOfEitherDtype : public ::testing::TestWithParam<DType> {
 protected:
  double tolerance() const { return GetParam() == DType::kF32 ? 2e-6 : 1e-14; }
};

TEST_P(AdamOfEitherDtype, MovesByTheLearningRateFirst) {
  Tensor w = Tensor::zeros({3}, GetParam()).requires_grad_();
  Adam adam({w}, {.lr = 0.125});
  const std::vector<double> grad = {4, -0.5, 0};
  w.set_grad(Tensor::from(grad, {3}).to(GetParam()));
  adam.step();  // both corrections make it lr * sign(grad)
  EXPECT_THAT(w.to_vector(), ::testing::Pointwise(::testing::DoubleNear(1e-7),
                                                  std::vector<double>{-0.125, 0.125, 0}));
}

TEST_P(AdamOfEitherDtype, FollowsThePaper) {
  const AdamOptions options = {.lr = 0.02, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1};
  constexpr std::int64_t kCount = 37;
  std::vector<ReferenceAdam> references;
  std::vector<double> values;
  for (int i = 0; i < kCount; ++i) {
    values.push_back(std::sin(i));
    references.emplace_back(values.back(), options);
  }
  Tensor w = Tensor::from(values, {kCount}).to(GetParam()).clone().requires_grad_();
  Adam adam({w}, options);
  for (int step = 1; step <= 20; ++step) {
    std::vector<double> grad;
    for (int i = 0; i < kCount; ++i) grad.push_back(std::cos(i * step));
    w.set_grad(Tensor::from(grad, {kCount}).to(GetParam()));
    adam.step();
    std::vector<double> expected;
    for (std::size_t i = 0; i < grad.size(); ++i) expected.push_back(references[i].step(grad[i]));
    ASSERT_THAT(w.to_vector(), ::testing::Pointwise(::testing::DoubleNear(tolerance()), expected))
        << "step " << step;
    ASSERT_EQ(w.grad().to_vector(), Tensor::from(grad, {kCount}).to(GetParam()).to_vector());
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, AdamOfEitherDtype, ::testing::Values(DType::kF32, DType::kF64),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

TEST(Adam, KeepsItsMomentsAndSteps) {
  Tensor w = Tensor::zeros({1}, DType::kF64).requires_grad_();
  Adam adam({w}, {.betas = {0.5, 0.75}});
  w.set_grad(Tensor::full({1}, 4, DType::kF64));
  adam.step();
  const ParamState& state = adam.state().at(w.id());
  EXPECT_EQ(state.steps, 1);
  EXPECT_EQ(state.tensors.at("exp_avg").item(), 2);
  EXPECT_EQ(state.tensors.at("exp_avg_sq").item(), 4);
}

TEST(Adam, RefusesOptionsOutOfRange) {
  const Tensor w = Tensor::zeros({1}).requires_grad_();
  EXPECT_THROW(Adam({w}, {.lr = -1}), InvalidArgumentError);
  EXPECT_THROW(Adam({w}, {.betas = {1.0, 0.999}}), InvalidArgumentError);
  EXPECT_THROW(Adam({w}, {.betas = {0.9, -0.1}}), InvalidArgumentError);
  EXPECT_THROW(Adam({w}, {.eps = -1e-8}), InvalidArgumentError);
  EXPECT_THROW(Adam({w}, {.weight_decay = -1}), InvalidArgumentError);
}

}  // namespace
}  // namespace optim
}  // namespace hvd
