// First and second derivatives of layers and losses against central differences, in float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "test/horovod_cpp/autograd/values.h"

namespace hvd {
namespace nn {
namespace {

namespace F = functional;

using ElementLoss = Tensor (*)(const Tensor& input, const Tensor& target, LossReduction how);

// Losses of equal float64 shapes [n, 4] that take any input, and targets within (0, 1).
std::vector<ElementLoss> element_losses() {
  return {
      [](const Tensor& a, const Tensor& b, LossReduction how) { return F::mse_loss(a, b, how); },
      [](const Tensor& a, const Tensor& b, LossReduction how) {
        return F::l1_loss(a * a, b, how);  // of a alone, the second derivative is zero
      },
      [](const Tensor& a, const Tensor& b, LossReduction how) {
        return F::huber_loss(a, b, how, 0.3);
      },
      [](const Tensor& a, const Tensor& b, LossReduction how) {
        return F::smooth_l1_loss(a, b, how, 0.3);
      },
      [](const Tensor& a, const Tensor& b, LossReduction how) {
        return F::binary_cross_entropy_with_logits(a, b, {}, how,
                                                   Tensor::full({4}, 2.0, DType::kF64));
      },
      [](const Tensor& a, const Tensor& b, LossReduction how) {
        return F::binary_cross_entropy(sigmoid(a), b, {}, how);
      },
      [](const Tensor& a, const Tensor& b, LossReduction how) { return F::kl_div(a, b, how); },
      [](const Tensor& a, const Tensor& b, LossReduction how) {
        return F::kl_div(a, b, how, true);
      }};
}

void check(const std::function<Tensor(const Inputs&)>& function, const Inputs& inputs) {
  gradcheck(function, inputs);
  gradgradcheck(function, inputs);
}

// The input and all parameters of a layer.
void check_layer(Module& layer, const Tensor& input) {
  layer.to(DType::kF64);
  Inputs inputs = layer.parameters();
  Generator generator(9);
  for (const Tensor& parameter : inputs) init::uniform_(parameter, -1.0, 1.0, generator);
  inputs.push_back(input);
  gradcheck([&](const Inputs& all) { return layer(all.back()); }, inputs);
}

TEST(DerivativesOfLayers, Activations) {
  const Inputs x = {leaf({3, 4}, -3, 3)};
  check([](const Inputs& in) { return F::leaky_relu(in[0], 0.2) * in[0]; }, x);
  check([](const Inputs& in) { return F::silu(in[0]); }, x);
  check([](const Inputs& in) { return F::gelu(in[0]); }, x);
  check([](const Inputs& in) { return F::gelu(in[0], GeluApproximate::kTanh); }, x);
  check([](const Inputs& in) { return F::gelu(in[0].t()); }, x);
}

TEST(DerivativesOfLayers, Normalisation) {
  const Inputs x = {leaf({3, 4, 2, 2}), leaf({4}, 0.5, 1.5, 2), leaf({4}, -1, 1, 4)};
  for (const bool training : {true, false}) {
    check(
        [&](const Inputs& in) {
          Tensor mean = Tensor::full({4}, 0.25, DType::kF64);
          Tensor var = Tensor::full({4}, 2.0, DType::kF64);
          return batch_norm(in[0], in[1], in[2], mean, var, training);
        },
        x);
  }
  check([](const Inputs& in) { return F::group_norm(in[0], 2, in[1], in[2]); }, x);
  check([](const Inputs& in) { return F::layer_norm(in[0], {4}, in[1], in[2]); },
        {leaf({3, 4}), x[1], x[2]});
}

TEST(DerivativesOfLayers, Pooling) {
  const Inputs x = {leaf({2, 2, 5, 4})};
  check(
      [](const Inputs& in) {
        return square(F::max_pool2d(in[0], {.kernel_size = 3, .stride = 2, .padding = 1}));
      },
      x);
  check([](const Inputs& in) { return square(max_pool2d(in[0], 2)); }, x);
  check(
      [](const Inputs& in) {
        return square(F::avg_pool2d(in[0], {.kernel_size = {2, 3}, .padding = {1, 0}}));
      },
      x);
  check([](const Inputs& in) { return square(F::adaptive_avg_pool2d(in[0], {3, 2})); }, x);
}

TEST(DerivativesOfLayers, Convolutions) {
  check(
      [](const Inputs& in) {
        return conv2d(in[0], in[1], in[2], {2, 1}, 1, {1, 2}, 2);
      },
      {leaf({2, 2, 5, 5}), leaf({4, 1, 2, 2}, -1, 1, 2), leaf({4}, -1, 1, 3)});
  check([](const Inputs& in) { return conv1d(in[0], in[1], {}, 2, 1); },
        {leaf({2, 2, 6}), leaf({3, 2, 3}, -1, 1, 2)});
  check([](const Inputs& in) { return conv_transpose2d(in[0], in[1], in[2], 2, 1, 1); },
        {leaf({1, 2, 3, 2}), leaf({2, 3, 3, 3}, -1, 1, 2), leaf({3}, -1, 1, 3)});
}

TEST(DerivativesOfLayers, LossesOfElements) {
  const Inputs pair = {leaf({3, 4}), leaf({3, 4}, 0.1, 0.9, 8)};
  for (const ElementLoss loss : element_losses()) {
    for (const LossReduction how :
         {LossReduction::kNone, LossReduction::kMean, LossReduction::kSum}) {
      check([&](const Inputs& in) { return loss(in[0], in[1], how); }, pair);
    }
  }
  check([](const Inputs& in) { return F::mse_loss(in[0].t(), in[1].t()); }, pair);
}

TEST(DerivativesOfLayers, LossesOfClasses) {
  const Tensor targets = integers({0, 2, 1, 2}, {4});
  for (const LossReduction how :
       {LossReduction::kNone, LossReduction::kMean, LossReduction::kSum}) {
    const ClassLossOptions options = {.weight = values({0.5, 1, 3}, {3}),
                                      .ignore_index = 1,
                                      .reduction = how,
                                      .label_smoothing = 0.25};
    check([&](const Inputs& in) { return F::cross_entropy(in[0], targets, options); },
          {leaf({4, 3})});
    check(
        [&](const Inputs& in) {
          return F::nll_loss(in[0] * in[0], targets, {.weight = options.weight, .reduction = how});
        },
        {leaf({4, 3})});
  }
  const ClassLossOptions smooth = {.weight = values({0.5, 1, 3}, {3}), .label_smoothing = 0.25};
  check([&](const Inputs& in) { return F::cross_entropy(in[0], in[1], smooth); },
        {leaf({4, 3}), leaf({4, 3}, 0.1, 0.9)});
  check(
      [](const Inputs& in) {
        return F::cross_entropy(in[0], integers({0, 1, 1, 0}, {2, 2}));
      },
      {leaf({2, 2, 2})});
}

TEST(DerivativesOfLayers, EmbeddingsAndAttention) {
  for (const bool sparse : {false, true}) {
    check(
        [&](const Inputs& in) {
          return square(F::embedding(integers({0, 3, 3}, {3}), in[0], 1, sparse));
        },
        {leaf({4, 2})});
  }
  MultiheadAttention attention(4, 2);
  attention.to(DType::kF64);
  check([&](const Inputs& in) { return attention(in[0], in[0], in[0], {}).output; },
        {leaf({2, 1, 4})});
}

TEST(DerivativesOfLayers, RecurrentLayers) {
  for (const bool bias : {true, false}) {
    const RecurrentOptions options = {
        .num_layers = 2, .bias = bias, .batch_first = !bias, .bidirectional = bias};
    LSTM lstm(2, 3, options);
    check_layer(lstm, leaf({3, 2, 2}));
    GRU gru(2, 3, options);
    check_layer(gru, leaf({3, 2, 2}));
  }
  LSTM lstm(2, 3);
  lstm.to(DType::kF64);
  gradcheck(
      [&](const Inputs& in) {
        const LstmOutput result = lstm(in[0], in[1], in[2]);
        return concat({result.output, result.hidden, result.cell}, 0);
      },
      {leaf({3, 2, 2}), leaf({1, 2, 3}), leaf({1, 2, 3})});
  GRU gru(2, 3);
  gru.to(DType::kF64);
  gradcheck([&](const Inputs& in) { return gru(in[0], in[1]).output; },
            {leaf({3, 2, 2}), leaf({1, 2, 3})});
}

TEST(DerivativesOfLayers, AttentionWithItsWeights) {
  MultiheadAttention attention(4, 2);
  attention.to(DType::kF64);
  for (const bool averaged : {false, true}) {
    gradcheck(
        [&](const Inputs& in) {
          const AttentionResult result =
              attention(in[0], in[1], in[2], AttentionOptions{.average_attn_weights = averaged});
          return concat({result.output.flatten(), result.weights.flatten()}, 0);
        },
        {leaf({3, 2, 4}), leaf({2, 2, 4}), leaf({2, 2, 4})});
  }
  TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 5, .dropout = 0.0, .norm_first = true});
  check_layer(layer, leaf({3, 2, 4}));
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
