// Layers, losses and functions against what PyTorch computed (test/support/reference/nn.py).
#include <gtest/gtest.h>

#include "horovod_cpp/nn/layers/layers.h"
#include "test/horovod_cpp/nn/reference_case.h"

namespace hvd {
namespace nn {
namespace {

namespace F = functional;

void expect_function(const std::string& name,
                     const std::function<Tensor(const Tensor&)>& function) {
  ReferenceCase reference(name);
  reference.check({{"output", function(reference("input"))}});
}

void expect_loss(const std::string& name,
                 const std::function<Tensor(ReferenceCase&, const Tensor&, const Tensor&)>& loss) {
  ReferenceCase reference(name);
  reference.check({{"output", loss(reference, reference("input"), reference("target"))}});
}

TEST(Reference, ActivationsArePyTorchs) {
  expect_function("leaky_relu", [](const Tensor& x) { return F::leaky_relu(x, 0.2); });
  expect_function("gelu", [](const Tensor& x) { return F::gelu(x); });
  expect_function("gelu_tanh", [](const Tensor& x) { return F::gelu(x, GeluApproximate::kTanh); });
  expect_function("silu", [](const Tensor& x) { return F::silu(x); });
  expect_function("softmax", [](const Tensor& x) { return F::softmax(x, 1); });
  expect_function("log_softmax", [](const Tensor& x) { return F::log_softmax(x, 1); });
}

TEST(Reference, PoolingIsPyTorchs) {
  expect_function("max_pool_pad", [](const Tensor& x) { return MaxPool2d(3, 2, 1)(x); });
  expect_function("max_pool_ceil", [](const Tensor& x) {
    return F::max_pool2d(
        x, {.kernel_size = {2, 3}, .stride = 2, .padding = {1, 0}, .ceil_mode = true});
  });
  expect_function("avg_pool", [](const Tensor& x) { return AvgPool2d(3, 2, 1)(x); });
  expect_function("avg_pool_ceil", [](const Tensor& x) { return AvgPool2d(3, 2, 1, true)(x); });
  expect_function("avg_pool_inside", [](const Tensor& x) {
    return F::avg_pool2d(
        x,
        {.kernel_size = {3, 2}, .stride = {2, 3}, .padding = {1, 1}, .count_include_pad = false});
  });
  expect_function("adaptive_avg_pool",
                  [](const Tensor& x) { return AdaptiveAvgPool2d(IntPair(3, 4))(x); });
}

void expect_layer(const std::string& name, Module& layer) {
  ReferenceCase reference(name);
  reference.load_into(layer);
  reference.check({{"output", layer(reference("input"))}});
}

TEST(Reference, NormalisationIsPyTorchs) {
  BatchNorm1d rows(3);
  expect_layer("batch_norm1d", rows);
  BatchNorm1d lengths(3);
  expect_layer("batch_norm1d_length", lengths);
  BatchNorm2d images(3, {.momentum = 0.25});
  expect_layer("batch_norm2d", images);
  const ReferenceCase reference("batch_norm2d");
  reference.expect_close("running_mean", images.running_mean);
  reference.expect_close("running_var", images.running_var);
  images.eval();
  expect_layer("batch_norm2d_eval", images);
  LayerNorm layer(Shape{3, 4});
  expect_layer("layer_norm", layer);
  GroupNorm group(2, 4);
  expect_layer("group_norm", group);
}

TEST(Reference, CumulativeStatisticsArePyTorchs) {
  BatchNorm2d norm(2, {.momentum = std::nullopt, .affine = false});
  norm(Tensor::full({2, 2, 2, 2}, 3.0));
  expect_layer("batch_norm2d_cumulative", norm);
  const ReferenceCase reference("batch_norm2d_cumulative");
  reference.expect_close("running_mean", norm.running_mean);
  reference.expect_close("running_var", norm.running_var);
}

TEST(Reference, LossesOfElementsArePyTorchs) {
  expect_loss("mse_none", [](auto&, const auto& x, const auto& t) {
    return MSELoss(LossReduction::kNone)(x, t);
  });
  expect_loss("mse_mean", [](auto&, const auto& x, const auto& t) { return MSELoss()(x, t); });
  expect_loss("mse_sum", [](auto&, const auto& x, const auto& t) {
    return MSELoss(LossReduction::kSum)(x, t);
  });
  expect_loss("l1", [](auto&, const auto& x, const auto& t) { return L1Loss()(x, t); });
  expect_loss("huber", [](auto&, const auto& x, const auto& t) {
    return HuberLoss(LossReduction::kMean, 0.5)(x, t);
  });
  expect_loss("smooth_l1", [](auto&, const auto& x, const auto& t) {
    return SmoothL1Loss(LossReduction::kSum, 0.5)(x, t);
  });
  expect_loss("l1_none", [](auto&, const auto& x, const auto& t) {
    return L1Loss(LossReduction::kNone)(x, t);
  });
  expect_loss("l1_sum", [](auto&, const auto& x, const auto& t) {
    return L1Loss(LossReduction::kSum)(x, t);
  });
  expect_loss("huber_none", [](auto&, const auto& x, const auto& t) {
    return HuberLoss(LossReduction::kNone, 0.75)(x, t);
  });
  expect_loss("bce_plain", [](auto&, const auto& x, const auto& t) { return BCELoss()(x, t); });
  expect_loss("bce_logits_plain",
              [](auto&, const auto& x, const auto& t) { return BCEWithLogitsLoss()(x, t); });
  expect_loss("bce", [](auto& given, const auto& x, const auto& t) {
    return BCELoss(given("weight"))(x, t);
  });
  expect_loss("bce_logits", [](auto& given, const auto& x, const auto& t) {
    return BCEWithLogitsLoss(given("weight"), LossReduction::kMean, given("pos_weight"))(x, t);
  });
  expect_loss("kl_div", [](auto&, const auto& x, const auto& t) {
    return KLDivLoss(LossReduction::kBatchMean)(x, t);
  });
  expect_loss("kl_div_log", [](auto&, const auto& x, const auto& t) {
    return KLDivLoss(LossReduction::kMean, true)(x, t);
  });
}

TEST(Reference, LossesOfClassesArePyTorchs) {
  const std::vector<std::pair<std::string, LossReduction>> reductions = {
      {"none", LossReduction::kNone}, {"mean", LossReduction::kMean}, {"sum", LossReduction::kSum}};
  for (const auto& [name, reduction] : reductions) {
    const LossReduction how = reduction;
    expect_loss("cross_entropy_" + name, [how](auto& given, const auto& x, const auto& t) {
      return CrossEntropyLoss({.weight = given("weight"),
                               .ignore_index = 1,
                               .reduction = how,
                               .label_smoothing = 0.25})(x, t);
    });
  }
  expect_loss("nll_none", [](auto&, const auto& x, const auto& t) {
    return NLLLoss({.reduction = LossReduction::kNone})(x, t);
  });
  expect_loss("nll_sum", [](auto&, const auto& x, const auto& t) {
    return NLLLoss({.reduction = LossReduction::kSum})(x, t);
  });
  expect_loss("nll", [](auto& given, const auto& x, const auto& t) {
    return NLLLoss({.weight = given("weight"), .ignore_index = 1})(x, t);
  });
  expect_loss("cross_entropy_images",
              [](auto&, const auto& x, const auto& t) { return CrossEntropyLoss()(x, t); });
  expect_loss("cross_entropy_soft", [](auto& given, const auto& x, const auto& t) {
    return CrossEntropyLoss({.weight = given("weight"), .label_smoothing = 0.25})(x, t);
  });
}

TEST(Reference, EmbeddingIsPyTorchs) {
  for (const bool sparse : {false, true}) {
    Embedding table(5, 3, 1, sparse);
    expect_layer("embedding", table);
  }
}

TEST(Reference, RecurrentLayersArePyTorchs) {
  ReferenceCase deep("lstm");
  LSTM lstm(4, 3, {.num_layers = 2, .bidirectional = true});
  deep.load_into(lstm);
  const LstmOutput result = lstm(deep("input"), deep("hidden"), deep("cell"));
  deep.check(
      {{"output", result.output}, {"last_hidden", result.hidden}, {"last_cell", result.cell}});
  ReferenceCase gated("gru");
  GRU gru(4, 3, {.num_layers = 2, .bidirectional = true});
  gated.load_into(gru);
  const GruOutput outputs = gru(gated("input"), gated("hidden"));
  gated.check({{"output", outputs.output}, {"last_hidden", outputs.hidden}});
  ReferenceCase plain("gru_plain");
  GRU bare(4, 3, {.bias = false, .batch_first = true});
  plain.load_into(bare);
  const GruOutput rows = bare(plain("input"), Tensor());
  plain.check({{"output", rows.output}, {"last_hidden", rows.hidden}});
}

TEST(Reference, AttentionIsPyTorchs) {
  ReferenceCase reference("attention");
  MultiheadAttention attention(4, 2);
  reference.load_into(attention);
  const AttentionResult result =
      attention(reference("query"), reference("key"), reference("value"),
                {.key_padding_mask = reference("padding"), .attn_mask = reference("mask")});
  reference.check({{"output", result.output}, {"weights", result.weights}});
}

TEST(Reference, TransformerEncodersArePyTorchs) {
  for (const bool norm_first : {false, true}) {
    ReferenceCase reference(norm_first ? "encoder_norm_first" : "encoder");
    const TransformerEncoderLayer layer(
        4, 2,
        {.dim_feedforward = 6,
         .dropout = 0.0,
         .activation = norm_first ? TransformerActivation::kGELU : TransformerActivation::kReLU,
         .batch_first = norm_first,
         .norm_first = norm_first});
    TransformerEncoder encoder(layer, 2, std::make_shared<LayerNorm>(4));
    reference.load_into(encoder);
    reference.check(
        {{"output", encoder(reference("input"), TransformerMasks{reference("mask"), {}})}});
  }
}

}  // namespace
}  // namespace nn
}  // namespace hvd
