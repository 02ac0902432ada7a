#include "horovod_cpp/nn/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "test/support/message_of.h"

namespace hvd {
namespace nn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

NamedTensors copy_of(const NamedTensors& state) {
  NamedTensors copy;
  for (const auto& [name, tensor] : state) copy.emplace_back(name, tensor.detach().clone());
  return copy;
}

// Parts of every kind, registered out of order, and one module used twice.
class Net : public Module {
 public:
  Net() {
    fc = register_module("fc", Linear(2, 2));
    scale = register_parameter("scale", Tensor::ones({1}));
    bn = register_module("bn", std::make_shared<BatchNorm2d>(3));
    register_module("again", fc);
    count = register_buffer("count", Tensor::zeros({}, DType::kI64));
  }
  Tensor forward(const Tensor& input) override { return (*fc)(input); }

  std::shared_ptr<Linear> fc;
  std::shared_ptr<BatchNorm2d> bn;
  Tensor scale;
  Tensor count;
};

TEST(Module, ListsParametersInPyTorchsOrderEachOnce) {
  const Net net;
  EXPECT_THAT(names_of(net.named_parameters()),
              ElementsAre("scale", "fc.weight", "fc.bias", "bn.weight", "bn.bias"));
  EXPECT_EQ(net.parameters().size(), 5u);
  EXPECT_TRUE(net.parameters()[1].is(net.fc->weight));
}

TEST(Module, ListsBuffers) {
  EXPECT_THAT(names_of(Net().named_buffers()),
              ElementsAre("count", "bn.running_mean", "bn.running_var", "bn.num_batches_tracked"));
}

TEST(Module, PutsEverythingUnderAllItsNamesIntoTheStateDict) {
  const Net net;
  EXPECT_THAT(names_of(net.state_dict()),
              ElementsAre("scale", "count", "fc.weight", "fc.bias", "bn.weight", "bn.bias",
                          "bn.running_mean", "bn.running_var", "bn.num_batches_tracked",
                          "again.weight", "again.bias"));
  EXPECT_TRUE(net.state_dict()[2].second.is(net.fc->weight));
}

TEST(Module, LoadsAStateInPlace) {
  Net from;
  from.bn->running_mean.fill_(3);
  Net to;
  const Tensor weight = to.fc->weight;
  to.load_state_dict(from.state_dict());
  EXPECT_TRUE(bitwise_equal(weight, from.fc->weight));
  EXPECT_FALSE(weight.is(from.fc->weight));
  EXPECT_THAT(to.bn->running_mean.to_vector(), Each(3));
  EXPECT_TRUE(weight.requires_grad());
}

TEST(Module, ConvertsTheDtypeOfALoadedState) {
  Linear linear(2, 1, /*bias=*/false);
  const std::vector<double> values = {0.5, 3};
  linear.load_state_dict({{"weight", Tensor::from(values, {1, 2})}});
  EXPECT_EQ(linear.weight.dtype(), DType::kF32);
  EXPECT_THAT(linear.weight.to_vector(), ElementsAre(0.5, 3));
}

TEST(Module, NamesAllThatDoesNotFitAndStaysAsItWas) {
  Linear linear(2, 3);
  const NamedTensors before = copy_of(linear.state_dict());
  const auto error = [&](const NamedTensors& state) {
    const std::string text =
        message_of<InvalidArgumentError>([&] { linear.load_state_dict(state); });
    EXPECT_TRUE(bitwise_equal(linear.weight, before[0].second));
    return text;
  };
  const Tensor weight = Tensor::zeros({3, 2});
  const Tensor bias = Tensor::zeros({3});
  EXPECT_EQ(error({{"weight", weight}, {"Bias", bias}}),
            "load_state_dict: 'bias' is missing; 'Bias' is unexpected");
  EXPECT_EQ(error({{"bias", bias}, {"weight", Tensor::zeros({2, 3})}}),
            "load_state_dict: 'weight' has shape [2, 3], expected [3, 2]");
  EXPECT_THAT(error({{"weight", weight}, {"bias", bias}, {"bias", bias}}),
              HasSubstr("'bias' appears twice"));
  EXPECT_THAT(error({{"weight", weight}, {"bias", Tensor()}}), HasSubstr("'bias' is missing"));
  EXPECT_EQ(error({{"weight", weight}, {"bias", Tensor::zeros({3}, DType::kC64)}}),
            "load_state_dict: 'bias' is complex64, expected float32");
}

TEST(Module, SwitchesTrainingEverywhere) {
  Net net;
  EXPECT_TRUE(net.is_training());
  net.eval();
  EXPECT_FALSE(net.is_training());
  EXPECT_FALSE(net.bn->is_training());
  net.train();
  EXPECT_TRUE(net.bn->is_training());
}

TEST(Module, DropsOrZeroesGradients) {
  Linear linear(1, 1, false);
  linear.weight.set_grad(Tensor::ones({1, 1}));
  linear.zero_grad(/*set_to_none=*/false);
  EXPECT_EQ(linear.weight.grad().item(), 0);
  linear.zero_grad();
  EXPECT_FALSE(linear.weight.grad().defined());
}

TEST(Module, AppliesAFunctionToChildrenFirst) {
  Net net;
  std::vector<Module*> visited;
  net.apply([&](Module& module) { visited.push_back(&module); });
  EXPECT_THAT(visited, ElementsAre(net.fc.get(), net.bn.get(), net.fc.get(), &net));
}

TEST(Module, RefusesPartsItCannotName) {
  class Open : public Module {
   public:
    Tensor forward(const Tensor& input) override { return input; }
    using Module::register_buffer;
    using Module::register_module;
    using Module::register_parameter;
  };
  Open module;
  module.register_parameter("a", Tensor::ones({1}));
  EXPECT_THROW(module.register_parameter("", Tensor::ones({1})), InvalidArgumentError);
  EXPECT_THROW(module.register_parameter("a.b", Tensor::ones({1})), InvalidArgumentError);
  EXPECT_THROW(module.register_buffer("a", Tensor::ones({1})), InvalidArgumentError);
  EXPECT_THROW(module.register_module("a", ReLU()), InvalidArgumentError);
  EXPECT_THROW(module.register_parameter("b", Tensor()), InvalidArgumentError);
  EXPECT_THROW(module.register_buffer("b", Tensor()), InvalidArgumentError);
  EXPECT_THROW(module.register_module("b", std::shared_ptr<ReLU>()), InvalidArgumentError);
  EXPECT_THROW(module.register_parameter("b", Tensor::arange(2)), InvalidArgumentError);
  EXPECT_THAT(names_of(module.state_dict()), ElementsAre("a"));
}

TEST(Module, IsNoPartOfItself) {
  const auto inner = std::make_shared<ModuleList>();
  const auto outer = std::make_shared<ModuleDict>();
  outer->insert("list", std::make_shared<Sequential>(inner, Linear(1, 1)));
  outer->insert("other", inner);
  const auto refused = [&](const auto& add) {
    EXPECT_THAT(message_of<InvalidArgumentError>(add), HasSubstr("cannot be a part of itself"));
    EXPECT_THAT(names_of(outer->state_dict()), ElementsAre("list.1.weight", "list.1.bias"));
  };
  refused([&] { inner->append(outer); });
  refused([&] { inner->append(inner); });
  refused([&] { outer->insert("other", outer); });
  const auto list = std::static_pointer_cast<Sequential>(outer->at("list"));
  refused([&] { list->assign({std::make_shared<ReLU>(), outer}); });
}

TEST(Module, KeepsAFrozenParameter) {
  class Frozen : public Module {
   public:
    explicit Frozen(const Tensor& value) { register_parameter("a", value); }
    Tensor forward(const Tensor& input) override { return input; }
  };
  Tensor value = Tensor::ones({1});
  EXPECT_FALSE(is_parameter(value));
  make_parameter(value);
  value.requires_grad_(false);
  EXPECT_TRUE(is_parameter(value));
  const Frozen module(value);
  EXPECT_THAT(names_of(module.named_parameters()), ElementsAre("a"));
  EXPECT_FALSE(value.requires_grad());
  EXPECT_FALSE(is_parameter(value.detach()));
}

TEST(Sequential, NamesItsModulesByNumberAndRunsThemInOrder) {
  Sequential model(Linear(2, 2, false), std::make_shared<ReLU>(), Linear(2, 1));
  EXPECT_THAT(names_of(model.named_parameters()), ElementsAre("0.weight", "2.weight", "2.bias"));
  const std::vector<float> first = {1, 0, 0, -1};
  const std::vector<float> second = {1, 1};
  const std::vector<float> bias = {10};
  model.load_state_dict({{"0.weight", Tensor::from(first, {2, 2})},
                         {"2.weight", Tensor::from(second, {1, 2})},
                         {"2.bias", Tensor::from(bias, {1})}});
  const std::vector<float> input = {3, 5};  // -> [3, -5] -> [3, 0] -> 13
  EXPECT_EQ(model(Tensor::from(input, {1, 2})).item(), 13);
}

TEST(Sequential, GivesItsModulesByIndex) {
  auto relu = std::make_shared<ReLU>();
  const std::vector<std::shared_ptr<Module>> modules = {relu, std::make_shared<Flatten>()};
  Sequential model(modules);
  model.push_back(Linear(1, 1));
  EXPECT_EQ(model.size(), 3u);
  EXPECT_EQ(model.at(0), relu);
  EXPECT_THROW(model.at(3), InvalidArgumentError);
}

TEST(Sequential, NestsWithDottedNames) {
  Sequential model(Sequential(Linear(1, 1, false), ReLU()), Linear(1, 1, false));
  EXPECT_THAT(names_of(model.named_parameters()), ElementsAre("0.0.weight", "1.weight"));
}

}  // namespace
}  // namespace nn
}  // namespace hvd
