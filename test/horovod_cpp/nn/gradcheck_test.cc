// Every new function and layer against central differences, in float64.
#include "horovod_cpp/autograd/engine/grad.h"

#include <gtest/gtest.h>

#include "horovod_cpp/nn/layers/layers.h"
#include "test/horovod_cpp/nn/element_losses.h"

namespace hvd {
namespace nn {
namespace {

namespace F = functional;
using Inputs = std::vector<Tensor>;

// Within [low, high); the seed keeps values away from kinks and ties.
Tensor leaf(Shape shape, double low = -1.0, double high = 1.0, std::uint64_t seed = 3) {
  Generator generator(seed);
  Tensor result = Tensor::empty(std::move(shape), DType::kF64);
  hvd::uniform_(result, low, high, generator);
  return result.requires_grad_();
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

TEST(Gradcheck, Activations) {
  const Tensor x = leaf({3, 4}, -3, 3);
  gradcheck([](const Inputs& in) { return F::leaky_relu(in[0], 0.2); }, {x});
  gradcheck([](const Inputs& in) { return F::silu(in[0]); }, {x});
  gradcheck([](const Inputs& in) { return F::gelu(in[0]); }, {x});
  gradcheck([](const Inputs& in) { return F::gelu(in[0], GeluApproximate::kTanh); }, {x});
  gradcheck([](const Inputs& in) { return F::silu(in[0].t()); }, {x});
}

TEST(Gradcheck, Pooling) {
  const Tensor x = leaf({2, 2, 5, 6});
  gradcheck(
      [](const Inputs& in) {
        return F::max_pool2d(in[0], {.kernel_size = 3, .stride = 2, .padding = 1});
      },
      {x});
  gradcheck(
      [](const Inputs& in) {
        return F::avg_pool2d(in[0], {.kernel_size = {2, 3}, .padding = {1, 0}, .ceil_mode = true});
      },
      {x});
  gradcheck([](const Inputs& in) { return F::adaptive_avg_pool2d(in[0], {3, 4}); }, {x});
}

TEST(Gradcheck, Normalisation) {
  BatchNorm1d rows(3);
  check_layer(rows, leaf({4, 3}));
  BatchNorm1d lengths(3, {.affine = false, .track_running_stats = false});
  check_layer(lengths, leaf({2, 3, 4}));
  LayerNorm layer(Shape{3, 4});
  check_layer(layer, leaf({2, 3, 4}));
  GroupNorm group(2, 4);
  check_layer(group, leaf({2, 4, 3}));
}

TEST(Gradcheck, LossesOfElements) {
  const Tensor x = leaf({3, 4});
  const Tensor t = leaf({3, 4}, 0.1, 0.9, 8);
  for (const ElementLoss loss : element_losses()) {
    for (const LossReduction how :
         {LossReduction::kNone, LossReduction::kMean, LossReduction::kSum}) {
      gradcheck([&](const Inputs& in) { return loss(in[0], in[1], how); }, {x, t});
    }
  }
  const Tensor p = leaf({3, 4}, 0.1, 0.9);
  const Tensor q = leaf({3, 4}, 0.1, 0.9, 8);
  gradcheck([](const Inputs& in) { return F::binary_cross_entropy(in[0], in[1]); }, {p, q});
  gradcheck([](const Inputs& in) { return F::kl_div(in[0], in[1], LossReduction::kBatchMean); },
            {p, q});
}

TEST(Gradcheck, LossesOfClasses) {
  const std::vector<std::int64_t> classes = {0, 2, 1, 2};
  const Tensor targets = Tensor::from(classes, {4});
  const std::vector<double> factors = {0.5, 1, 3};
  for (const LossReduction how :
       {LossReduction::kNone, LossReduction::kMean, LossReduction::kSum}) {
    const ClassLossOptions options = {.weight = Tensor::from(factors, {3}),
                                      .ignore_index = 1,
                                      .reduction = how,
                                      .label_smoothing = 0.25};
    gradcheck([&](const Inputs& in) { return F::cross_entropy(in[0], targets, options); },
              {leaf({4, 3})});
    gradcheck(
        [&](const Inputs& in) {
          return F::nll_loss(in[0], targets, {.weight = options.weight, .reduction = how});
        },
        {leaf({4, 3})});
    gradcheck([&](const Inputs& in) { return F::cross_entropy(in[0], in[1], options); },
              {leaf({4, 3}), leaf({4, 3}, 0.1, 0.9)});
  }
}

TEST(Gradcheck, Embedding) {
  const std::vector<std::int64_t> rows = {0, 3, 3, -0};
  const Tensor indices = Tensor::from(rows, {2, 2});
  for (const bool sparse : {false, true}) {
    gradcheck([&](const Inputs& in) { return F::embedding(indices, in[0], std::nullopt, sparse); },
              {leaf({4, 3})});
  }
}

TEST(Gradcheck, RecurrentLayers) {
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

TEST(Gradcheck, Attention) {
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

}  // namespace
}  // namespace nn
}  // namespace hvd
