// Second derivatives of layers and losses against central differences, in float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "test/horovod_cpp/autograd/values.h"
#include "test/horovod_cpp/nn/element_losses.h"

namespace hvd {
namespace nn {
namespace {

namespace F = functional;

TEST(SecondOrderOfLayers, Activations) {
  const Inputs x = {leaf({3, 4}, -3, 3)};
  gradgradcheck([](const Inputs& in) { return F::leaky_relu(in[0], 0.2) * in[0]; }, x);
  gradgradcheck([](const Inputs& in) { return F::silu(in[0]); }, x);
  gradgradcheck([](const Inputs& in) { return F::gelu(in[0]); }, x);
  gradgradcheck([](const Inputs& in) { return F::gelu(in[0], GeluApproximate::kTanh); }, x);
  gradgradcheck([](const Inputs& in) { return F::gelu(in[0].t()); }, x);
}

TEST(SecondOrderOfLayers, Normalisation) {
  const Inputs x = {leaf({3, 4, 2, 2}), leaf({4}, 0.5, 1.5, 2), leaf({4}, -1, 1, 4)};
  for (const bool training : {true, false}) {
    gradgradcheck(
        [&](const Inputs& in) {
          Tensor mean = Tensor::full({4}, 0.25, DType::kF64);
          Tensor var = Tensor::full({4}, 2.0, DType::kF64);
          return batch_norm(in[0], in[1], in[2], mean, var, training);
        },
        x);
  }
  gradgradcheck([](const Inputs& in) { return F::group_norm(in[0], 2, in[1], in[2]); }, x);
  gradgradcheck([](const Inputs& in) { return F::layer_norm(in[0], {4}, in[1], in[2]); },
                {leaf({3, 4}), x[1], x[2]});
}

TEST(SecondOrderOfLayers, Pooling) {
  const Inputs x = {leaf({2, 2, 5, 4})};
  gradgradcheck(
      [](const Inputs& in) {
        return square(F::max_pool2d(in[0], {.kernel_size = 3, .stride = 2, .padding = 1}));
      },
      x);
  gradgradcheck([](const Inputs& in) { return square(max_pool2d(in[0], 2)); }, x);
  gradgradcheck(
      [](const Inputs& in) {
        return square(F::avg_pool2d(in[0], {.kernel_size = {2, 3}, .padding = {1, 0}}));
      },
      x);
  gradgradcheck([](const Inputs& in) { return square(F::adaptive_avg_pool2d(in[0], {3, 2})); }, x);
}

TEST(SecondOrderOfLayers, Convolutions) {
  gradgradcheck(
      [](const Inputs& in) {
        return conv2d(in[0], in[1], in[2], {2, 1}, 1, {1, 2}, 2);
      },
      {leaf({2, 2, 5, 5}), leaf({4, 1, 2, 2}, -1, 1, 2), leaf({4}, -1, 1, 3)});
  gradgradcheck([](const Inputs& in) { return conv1d(in[0], in[1], {}, 2, 1); },
                {leaf({2, 2, 6}), leaf({3, 2, 3}, -1, 1, 2)});
  gradgradcheck([](const Inputs& in) { return conv_transpose2d(in[0], in[1], in[2], 2, 1, 1); },
                {leaf({1, 2, 3, 2}), leaf({2, 3, 3, 3}, -1, 1, 2), leaf({3}, -1, 1, 3)});
}

TEST(SecondOrderOfLayers, LossesOfElements) {
  const Inputs pair = {leaf({3, 4}), leaf({3, 4}, 0.1, 0.9, 8)};
  for (const ElementLoss loss : element_losses()) {
    for (const LossReduction how : {LossReduction::kNone, LossReduction::kMean}) {
      gradgradcheck([&](const Inputs& in) { return loss(in[0], in[1], how); }, pair);
    }
  }
  gradgradcheck([](const Inputs& in) { return F::mse_loss(in[0].t(), in[1].t()); }, pair);
}

TEST(SecondOrderOfLayers, LossesOfClasses) {
  const Tensor targets = integers({0, 2, 1, 2}, {4});
  for (const LossReduction how :
       {LossReduction::kNone, LossReduction::kMean, LossReduction::kSum}) {
    const ClassLossOptions options = {.weight = values({0.5, 1, 3}, {3}),
                                      .ignore_index = 1,
                                      .reduction = how,
                                      .label_smoothing = 0.25};
    gradgradcheck([&](const Inputs& in) { return F::cross_entropy(in[0], targets, options); },
                  {leaf({4, 3})});
    gradgradcheck(
        [&](const Inputs& in) {
          return F::nll_loss(in[0] * in[0], targets, {.weight = options.weight, .reduction = how});
        },
        {leaf({4, 3})});
  }
  gradgradcheck(
      [](const Inputs& in) {
        return F::cross_entropy(in[0], integers({0, 1, 1, 0}, {2, 2}));
      },
      {leaf({2, 2, 2})});
}

TEST(SecondOrderOfLayers, EmbeddingsAndAttention) {
  for (const bool sparse : {false, true}) {
    gradgradcheck(
        [&](const Inputs& in) {
          return square(F::embedding(integers({0, 3, 3}, {3}), in[0], 1, sparse));
        },
        {leaf({4, 2})});
  }
  MultiheadAttention attention(4, 2);
  attention.to(DType::kF64);
  gradgradcheck([&](const Inputs& in) { return attention(in[0], in[0], in[0], {}).output; },
                {leaf({2, 1, 4})});
}

// d^3/dx^3 through the formulas that stand in for the fast ones.
TEST(SecondOrderOfLayers, ThirdDerivativesFollowFromThem) {
  const auto slope_of = [](const std::function<Tensor(const Tensor&)>& function) {
    return [=](const Inputs& in) {
      const Tensor factors = Tensor::full(in[0].shape(), 0.5, DType::kF64) * in[0];
      return grad({sum(function(in[0]) * factors)}, {in[0]}, {}, true, true)[0];
    };
  };
  gradgradcheck(slope_of([](const Tensor& x) { return F::gelu(x); }), {leaf({3})});
  gradgradcheck(slope_of([](const Tensor& x) { return F::layer_norm(x, {3}); }), {leaf({2, 3})});
}

TEST(SecondOrderOfLayers, ThrowWhereThereAreNoneAndNameTheOperation) {
  GRU gru(2, 2);
  gru.to(DType::kF64);
  Tensor x = leaf({2, 1, 2});
  const Tensor y = sum(square(gru(x)));
  const Tensor first = grad({y}, {x}, {}, true, true)[0];
  EXPECT_THAT(error_of([&] { sum(first).backward(); }), testing::HasSubstr("gru"));
  EXPECT_NO_THROW(y.backward());  // once is possible
}

}  // namespace
}  // namespace nn
}  // namespace hvd
