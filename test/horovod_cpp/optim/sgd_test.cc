#include "horovod_cpp/optim/optimizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/status.h"

namespace hvd {
namespace optim {
namespace {

using ::testing::ElementsAre;

// A parameter whose gradients are given by hand. All numbers are dyadic: results are exact.
Tensor parameter(std::vector<double> values, DType dtype = DType::kF32) {
  Tensor tensor =
      Tensor::from(values, {static_cast<std::int64_t>(values.size())}).to(dtype).clone();
  return tensor.requires_grad_();
}

void set_grad(Tensor& param, std::vector<double> values) {
  param.set_grad(Tensor::from(values, param.shape()).to(param.dtype()));
}

class SgdOfEitherDtype : public ::testing::TestWithParam<DType> {};

TEST_P(SgdOfEitherDtype, SubtractsTheScaledGradient) {
  Tensor w = parameter({1, 2, -4}, GetParam());
  SGD sgd({w}, {.lr = 0.5});
  set_grad(w, {1, -2, 8});
  sgd.step();
  EXPECT_THAT(w.to_vector(), ElementsAre(0.5, 3, -8));
  sgd.step();
  EXPECT_THAT(w.to_vector(), ElementsAre(0, 4, -12));
}

TEST_P(SgdOfEitherDtype, AddsWeightDecayToTheGradient) {
  Tensor w = parameter({4, -8}, GetParam());
  SGD sgd({w}, {.lr = 0.5, .weight_decay = 0.25});
  set_grad(w, {1, 0});
  sgd.step();  // 4 - 0.5 * (1 + 1), -8 - 0.5 * -2
  EXPECT_THAT(w.to_vector(), ElementsAre(3, -7));
}

TEST_P(SgdOfEitherDtype, AccumulatesMomentum) {
  Tensor w = parameter({0}, GetParam());
  SGD sgd({w}, {.lr = 1, .momentum = 0.5});
  set_grad(w, {1});
  sgd.step();  // buffer 1
  EXPECT_EQ(w.item(), -1);
  sgd.step();  // buffer 1.5
  EXPECT_EQ(w.item(), -2.5);
  set_grad(w, {0});
  sgd.step();  // buffer 0.75
  EXPECT_EQ(w.item(), -3.25);
  EXPECT_EQ(sgd.state().at(w.id()).tensors.at("momentum_buffer").item(), 0.75);
  EXPECT_EQ(sgd.state().at(w.id()).steps, 3);
}

TEST_P(SgdOfEitherDtype, DampensEveryStepButTheFirst) {
  Tensor w = parameter({0}, GetParam());
  SGD sgd({w}, {.lr = 1, .momentum = 0.5, .dampening = 0.75});
  set_grad(w, {4});
  sgd.step();  // buffer 4
  EXPECT_EQ(w.item(), -4);
  sgd.step();  // buffer 0.5 * 4 + 0.25 * 4 = 3
  EXPECT_EQ(w.item(), -7);
}

TEST_P(SgdOfEitherDtype, LooksAheadWithNesterov) {
  Tensor w = parameter({0}, GetParam());
  SGD sgd({w}, {.lr = 1, .momentum = 0.5, .nesterov = true});
  set_grad(w, {2});
  sgd.step();  // buffer 2, step 2 + 0.5 * 2
  EXPECT_EQ(w.item(), -3);
  sgd.step();  // buffer 3, step 2 + 0.5 * 3
  EXPECT_EQ(w.item(), -6.5);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, SgdOfEitherDtype, ::testing::Values(DType::kF32, DType::kF64),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

TEST(Sgd, FollowsTheFormulaOverManyStepsAndElements) {
  constexpr std::int64_t kCount = 1003;  // not a multiple of any vector length
  constexpr double kLr = 0.05, kMomentum = 0.9, kDecay = 0.01;
  std::vector<double> expected(kCount), buffer(kCount);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = std::sin(static_cast<double>(i));
  Tensor w = parameter(expected, DType::kF64);
  SGD sgd({w}, {.lr = kLr, .momentum = kMomentum, .weight_decay = kDecay, .nesterov = true});
  for (int step = 1; step <= 10; ++step) {
    std::vector<double> grad(kCount);
    for (std::size_t i = 0; i < grad.size(); ++i) {
      grad[i] = std::cos(static_cast<double>(i) * step);
      const double d = grad[i] + kDecay * expected[i];
      buffer[i] = kMomentum * buffer[i] + d;
      expected[i] -= kLr * (d + kMomentum * buffer[i]);
    }
    set_grad(w, grad);
    sgd.step();
  }
  EXPECT_THAT(w.to_vector(), ::testing::Pointwise(::testing::DoubleNear(1e-14), expected));
}

TEST(Sgd, LeavesTheGradientAlone) {
  Tensor w = parameter({1, 2});
  SGD sgd({w}, {.lr = 0.5, .momentum = 0.5, .weight_decay = 0.5, .nesterov = true});
  set_grad(w, {3, 4});
  sgd.step();
  sgd.step();
  EXPECT_THAT(w.grad().to_vector(), ElementsAre(3, 4));
}

TEST(Sgd, ReadsAGradientThatIsNotContiguous) {
  const std::vector<double> values = {1, 2, 3, 4};
  Tensor w = Tensor::zeros({2, 2}, DType::kF64).requires_grad_();
  SGD sgd({w}, {.lr = 1});
  w.set_grad(Tensor::from(values, {2, 2}).t());
  sgd.step();
  EXPECT_THAT(w.to_vector(), ElementsAre(-1, -3, -2, -4));
}

TEST(Sgd, RefusesOptionsOutOfRange) {
  const Tensor w = parameter({1});
  EXPECT_THROW(SGD({w}, {.lr = -1}), InvalidArgumentError);
  EXPECT_THROW(SGD({w}, {.lr = std::nan("")}), InvalidArgumentError);
  EXPECT_THROW(SGD({w}, {.momentum = -0.5}), InvalidArgumentError);
  EXPECT_THROW(SGD({w}, {.weight_decay = -0.5}), InvalidArgumentError);
  EXPECT_THROW(SGD({w}, {.nesterov = true}), InvalidArgumentError);
  EXPECT_THROW(SGD({w}, {.momentum = 0.5, .dampening = 0.5, .nesterov = true}),
               InvalidArgumentError);
}

}  // namespace
}  // namespace optim
}  // namespace hvd
