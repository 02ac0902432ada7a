#include "horovod_cpp/nn/containers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "test/support/message_of.h"

namespace hvd {
namespace nn {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names_of(const auto& entries) {
  std::vector<std::string> names;
  for (const auto& [name, value] : entries) names.push_back(name);
  return names;
}

TEST(ModuleList, NamesItsModulesByNumber) {
  ModuleList list({std::make_shared<Linear>(1, 1, false), std::make_shared<ReLU>()});
  list.append(std::make_shared<Linear>(1, 1, false));
  EXPECT_EQ(list.size(), 3u);
  EXPECT_THAT(names_of(list.named_parameters()), ElementsAre("0.weight", "2.weight"));
  EXPECT_EQ(list.at(1)->class_name(), "ReLU");
  EXPECT_THROW(list.at(3), InvalidArgumentError);
  EXPECT_THROW(list(Tensor::ones({1, 1})), InvalidArgumentError);
}

TEST(ModuleDict, KeepsNamesAndTheirOrderAndReplaces) {
  ModuleDict dict({{"b", std::make_shared<Linear>(1, 1, false)}, {"a", std::make_shared<ReLU>()}});
  EXPECT_THAT(names_of(dict.named_children()), ElementsAre("b", "a"));
  const auto fresh = std::make_shared<Linear>(2, 2, false);
  dict.insert("b", fresh);
  EXPECT_EQ(dict.at("b"), fresh);
  EXPECT_EQ(dict.parameters().size(), 1u);
  dict.erase("a");
  EXPECT_FALSE(dict.contains("a"));
  EXPECT_THROW(dict.erase("a"), InvalidArgumentError);
  EXPECT_THROW(dict.at("a"), InvalidArgumentError);
  EXPECT_THROW(dict.insert("c.d", fresh), InvalidArgumentError);
  EXPECT_THROW(dict(Tensor::ones({1, 1})), InvalidArgumentError);
  EXPECT_EQ(dict.size(), 1u);
}

TEST(Module, ListsDescendantsByPathParentsFirstEachOnce) {
  const auto shared = std::make_shared<ReLU>();
  const Sequential model(Sequential(Linear(1, 1), shared), shared, Flatten());
  EXPECT_THAT(names_of(model.named_descendants()), ElementsAre("0", "0.0", "0.1", "2"));
  EXPECT_EQ(model.children().size(), 3u);
}

TEST(Module, SwitchesGradientsOfAllParameters) {
  Sequential model(Linear(1, 1), Linear(1, 1));
  model.requires_grad_(false);
  for (const Tensor& parameter : model.parameters()) EXPECT_FALSE(parameter.requires_grad());
  model.requires_grad_();
  for (const Tensor& parameter : model.parameters()) EXPECT_TRUE(parameter.requires_grad());
}

TEST(Module, ConvertsWhatIsFloatingInPlace) {
  BatchNorm2d norm(2);
  const Tensor weight = norm.weight;
  norm.weight.set_grad(Tensor::full({2}, 3));
  norm.to(DType::kF64);
  EXPECT_EQ(weight.dtype(), DType::kF64);
  EXPECT_TRUE(norm.parameters()[0].is(weight));
  EXPECT_THAT(weight.to_vector(), ElementsAre(1, 1));
  EXPECT_EQ(weight.grad().dtype(), DType::kF64);
  EXPECT_THAT(weight.grad().to_vector(), ElementsAre(3, 3));
  EXPECT_EQ(norm.running_var.dtype(), DType::kF64);
  EXPECT_EQ(norm.num_batches_tracked.dtype(), DType::kI64);
  norm.half();
  EXPECT_EQ(weight.dtype(), DType::kF16);
  norm.bfloat16();
  EXPECT_EQ(norm.running_mean.dtype(), DType::kBF16);
  EXPECT_THROW(norm.to(DType::kI64), InvalidArgumentError);
}

TEST(Module, RefusesToMoveGradientsOutOfAnOptimizersMemory) {
  Linear linear(1, 1);
  set_grad_memory(linear.bias, Tensor::zeros({1}));
  const std::string text = message_of<InvalidArgumentError>([&] { linear.to(DType::kF64); });
  EXPECT_NE(text.find("'bias'"), std::string::npos);
  EXPECT_EQ(linear.weight.dtype(), DType::kF32);
}

TEST(Module, NamesTheLayerByItsPathAndBothShapes) {
  Sequential model(Sequential(ReLU(), Linear(3, 2)), Linear(2, 1));
  const auto error = [](Module& module, const Tensor& input) {
    return message_of<InvalidArgumentError>([&] { module(input); });
  };
  EXPECT_EQ(error(model, Tensor::zeros({4, 5})),
            "Sequential: '0.1' (Linear): linear: shapes [4, 5] and [2, 3] do not fit");
  const std::shared_ptr<Module> inner = model.at(0);
  EXPECT_EQ(error(*inner, Tensor::zeros({5})),
            "Sequential: '0.1' (Linear): linear: shapes [5] and [2, 3] do not fit");
  Linear alone(3, 2);
  EXPECT_EQ(error(alone, Tensor::zeros({1, 2})),
            "Linear: linear: shapes [1, 2] and [2, 3] do not fit");
}

TEST(Module, KnowsItsPathWhileTheModelLives) {
  const auto relu = std::make_shared<ReLU>();
  {
    const Sequential model(ReLU(), Sequential(Flatten(), relu));
    EXPECT_EQ(relu->path(), "1.1");
  }
  EXPECT_EQ(relu->path(), "");
}

TEST(Layers, NameThemselvesAndTheShapesThatDoNotFit) {
  const auto error = [](Module&& module, const Tensor& input) {
    return message_of<InvalidArgumentError>([&] { module(input); });
  };
  const auto expect = [&](Module&& module, const Tensor& input, const std::string& layer,
                          const std::string& other) {
    const std::string text = error(std::move(module), input);
    EXPECT_EQ(text.find(layer + ":"), 0u) << text;
    EXPECT_NE(text.find(to_string(input.shape())), std::string::npos) << text;
    EXPECT_NE(text.find(other), std::string::npos) << text;
  };
  const Tensor bad = Tensor::zeros({2, 3, 4, 5});
  expect(BatchNorm1d(3), bad, "BatchNorm1d", "num_features 3");
  expect(BatchNorm2d(4), bad, "BatchNorm2d", "num_features 4");
  expect(LayerNorm(4), bad, "LayerNorm", "[4]");
  expect(GroupNorm(2, 4), bad, "GroupNorm", "num_channels 4");
  expect(MaxPool2d(8), bad, "MaxPool2d", "8");
  expect(AvgPool2d(8), bad, "AvgPool2d", "[8, 8]");
  expect(AdaptiveAvgPool2d(2), Tensor::zeros({2, 3}), "AdaptiveAvgPool2d", "[n, c, h, w]");
  expect(Embedding(7, 2), bad, "Embedding", "[7, 2]");
  expect(LSTM(2, 3), bad, "LSTM", "input_size 2");
  expect(GRU(2, 3), bad, "GRU", "input_size 2");
  expect(MultiheadAttention(4, 2), bad, "MultiheadAttention", "embed_dim 4");
}

}  // namespace
}  // namespace nn
}  // namespace hvd
