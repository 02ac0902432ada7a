#include "horovod_cpp/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/optim/optimizers.h"
#include "horovod_cpp/optim/rule_optimizer.h"
#include "test/support/message_of.h"

namespace hvd {
namespace optim {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

Tensor parameter(double value, Shape shape = {2}) {
  return Tensor::full(std::move(shape), value).requires_grad_();
}

void set_grad(Tensor& param, double value) {
  param.set_grad(Tensor::full(param.shape(), value));
}

std::string error_of(const std::function<void()>& action) {
  return message_of<InvalidArgumentError>(action);
}

NamedTensors copy_of(const NamedTensors& state) {
  NamedTensors copy;
  for (const auto& [name, tensor] : state) copy.emplace_back(name, tensor.clone());
  return copy;
}

Tensor& entry(NamedTensors& state, const std::string& name) {
  for (auto& [key, tensor] : state) {
    if (key == name) return tensor;
  }
  throw std::logic_error("no entry " + name);
}

// What a program derives: it says nothing of a check.
class SignSGD : public RuleOptimizer {
 public:
  explicit SignSGD(std::vector<Tensor> params)
      : RuleOptimizer(one_group(std::move(params)), traits()) {}

 protected:
  void update(Tensor& param, const Tensor& grad, ParamState& state,
              const Options& options) override {
    state_tensor(state, "m", param).add_(grad);
    param.sub_(sign(state_tensor(state, "m", param)), options.at("lr"));
  }

 private:
  static Traits traits() {
    Traits traits;
    traits.defaults = {{"lr", 0.5}};
    traits.state_tensors = {"m"};
    return traits;
  }
};

TEST(Optimizer, OfAProgramNeedsNoCheckOfItsOptions) {
  Tensor a = parameter(1);
  Tensor b = parameter(1);
  SignSGD optimizer({a});
  optimizer.set_defaults({{"lr", 0.25}});
  optimizer.add_param_group({{b}, {}});
  set_grad(a, 3);
  set_grad(b, -7);
  optimizer.step();
  EXPECT_THAT(a.to_vector(), Each(0.5));
  EXPECT_THAT(b.to_vector(), Each(1.25));
  EXPECT_THAT(error_of([&] { optimizer.set_defaults({{"momentum", 1}}); }), HasSubstr("momentum"));
}

TEST(Optimizer, RefusesAStateThatDoesNotFitTheParameter) {
  Tensor param = parameter(1, {2, 3});
  SGD sgd({param}, {.lr = 1, .momentum = 0.5});
  set_grad(param, 0);
  const auto step_with = [&](const Tensor& buffer) {
    sgd.state()[param.id()].tensors["momentum_buffer"] = buffer;
    sgd.step();
  };
  EXPECT_THAT(error_of([&] { step_with(Tensor::zeros({})); }),
              HasSubstr("'momentum_buffer' is float32 []: expected float32 [2, 3]"));
  EXPECT_THAT(error_of([&] {
                step_with(Tensor::zeros({2, 3}, DType::kF64));
              }),
              HasSubstr("float64 [2, 3]"));
  EXPECT_THAT(param.to_vector(), Each(1));
  const Tensor buffer = Tensor::arange(6, DType::kF32).reshape({3, 2}).t();
  step_with(buffer);
  EXPECT_TRUE(bitwise_equal(param.detach(), 1.0 - buffer * 0.5));
  step_with(Tensor::ones({3}).expand({2, 3}));
}

TEST(Optimizer, SkipsParametersWithoutAGradient) {
  Tensor a = parameter(1);
  Tensor b = parameter(1);
  SGD sgd({a, b}, {.lr = 1, .weight_decay = 0.5});
  set_grad(a, 0);
  sgd.step();
  EXPECT_THAT(a.to_vector(), Each(0.5));
  EXPECT_THAT(b.to_vector(), Each(1));
  EXPECT_TRUE(sgd.state().contains(a.id()));
  EXPECT_FALSE(sgd.state().contains(b.id()));
}

TEST(Optimizer, AppliesTheOptionsOfEachGroup) {
  Tensor a = parameter(0);
  Tensor b = parameter(0);
  SGD sgd(std::vector<ParamGroup>{{{a}, {}}, {{b}, {{"lr", 0.25}}}}, {.lr = 1});
  set_grad(a, 1);
  set_grad(b, 1);
  sgd.step();
  EXPECT_THAT(a.to_vector(), Each(-1));
  EXPECT_THAT(b.to_vector(), Each(-0.25));
  sgd.param_groups()[0].options["lr"] = 0.5;  // a schedule
  sgd.step();
  EXPECT_THAT(a.to_vector(), Each(-1.5));
  EXPECT_THAT(b.to_vector(), Each(-0.5));
}

TEST(Optimizer, StepsTheParametersThatItIsGivenWithTheOptionsOfTheirGroups) {
  Tensor a = parameter(0);
  Tensor b = parameter(0);
  Tensor c = parameter(0);
  SGD sgd(std::vector<ParamGroup>{{{a, b}, {}}, {{c}, {{"lr", 0.25}}}}, {.lr = 1});
  for (Tensor* param : {&a, &c}) set_grad(*param, 1);
  EXPECT_THAT(error_of([&] { sgd.step_parameters({a, parameter(0)}); }), HasSubstr("tensor 1"));
  EXPECT_THAT(a.to_vector(), Each(0));
  sgd.step_parameters({c, b});
  EXPECT_THAT(a.to_vector(), Each(0));
  EXPECT_THAT(b.to_vector(), Each(0));  // has no gradient
  EXPECT_THAT(c.to_vector(), Each(-0.25));
}

TEST(Optimizer, TakesAGroupLater) {
  Tensor a = parameter(0);
  Tensor b = parameter(0);
  SGD sgd({a}, {.lr = 1});
  sgd.add_param_group({{b}, {{"lr", 2}}});
  set_grad(b, 1);
  sgd.step();
  EXPECT_THAT(b.to_vector(), Each(-2));
}

TEST(Optimizer, DropsOrZeroesGradients) {
  Tensor a = parameter(0);
  SGD sgd({a});
  set_grad(a, 1);
  const Tensor grad = a.grad();
  sgd.zero_grad(/*set_to_none=*/false);
  EXPECT_TRUE(a.grad().is(grad));
  EXPECT_THAT(grad.to_vector(), Each(0));
  sgd.zero_grad();
  EXPECT_FALSE(a.grad().defined());
  sgd.zero_grad(false);
  EXPECT_FALSE(a.grad().defined());
}

TEST(Optimizer, StepsAfterBackwardAndIsNotRecorded) {
  Tensor w = parameter(3, {});
  SGD sgd({w}, {.lr = 0.25});
  for (int i = 0; i < 2; ++i) {
    sgd.zero_grad();
    mul(w, w).backward();
    sgd.step();  // w -= 0.25 * 2 w
  }
  EXPECT_EQ(w.item(), 0.75);
  EXPECT_TRUE(w.is_leaf());
  EXPECT_TRUE(w.requires_grad());
}

TEST(Optimizer, RefusesParametersItCannotUpdate) {
  const Tensor a = parameter(1);
  const Tensor matrix = parameter(1, {2, 3});
  EXPECT_THAT(error_of([] { SGD(std::vector<Tensor>{}); }), HasSubstr("without parameters"));
  EXPECT_THAT(error_of([] { SGD(std::vector<ParamGroup>{}); }), HasSubstr("no parameters"));
  EXPECT_THAT(
      error_of([&] {
        SGD({a, matrix, a});
      }),
      HasSubstr("parameter 2 of group 0 (float32 [2]) is given twice: it is parameter 0 of group 0 "
                "too"));
  EXPECT_THAT(error_of([&] {
                SGD(std::vector<ParamGroup>{{{a}, {}}, {{a}, {}}});
              }),
              HasSubstr("given twice"));
  EXPECT_THAT(error_of([&] {
                SGD({a, Tensor()});
              }),
              HasSubstr("parameter 1 of the group is undef"));
  EXPECT_THAT(error_of([&] { SGD({Tensor::arange(3)}); }),
              HasSubstr("int64 [3]: expected a floating dtype"));
  EXPECT_THAT(error_of([&] { SGD({a * 2.0}); }), HasSubstr("not a contiguous leaf"));
  EXPECT_THAT(error_of([&] { SGD({matrix.detach().t()}); }), HasSubstr("not a contiguous leaf"));
}

TEST(Optimizer, RefusesOptionsItDoesNotKnow) {
  Tensor a = parameter(1);
  EXPECT_THAT(
      error_of([&] {
        SGD(std::vector<ParamGroup>{{{a}, {{"beta1", 0.5}}}});
      }),
      HasSubstr("unknown option 'beta1'; known: dampening, lr, maximize, momentum, nesterov"));
  EXPECT_THAT(error_of([&] {
                SGD(std::vector<ParamGroup>{{{a}, {{"lr", -0.5}}}});
              }),
              HasSubstr("lr=-0.5"));
}

TEST(Optimizer, StaysAsItWasWhenAGroupIsRefused) {
  Tensor a = parameter(1);
  SGD sgd({a});
  EXPECT_THROW(sgd.add_param_group({{parameter(1), a}, {}}), InvalidArgumentError);
  EXPECT_THROW(sgd.add_param_group({{parameter(1)}, {{"lr", -1}}}), InvalidArgumentError);
  EXPECT_EQ(sgd.param_groups().size(), 1u);
}

TEST(OptimizerState, NamesOptionsAndStateByGroupAndParameter) {
  Tensor a = parameter(1);
  Tensor b = parameter(2, {3});
  Tensor c = parameter(3);
  Adam adam(std::vector<ParamGroup>{{{a}, {}}, {{b, c}, {{"lr", 0.5}}}});
  set_grad(c, 1);
  adam.step();
  NamedTensors state = adam.state_dict();
  EXPECT_EQ(state.size(), 8u + 8u + 3u);
  EXPECT_EQ(entry(state, "group.0.lr").item(), 1e-3);
  EXPECT_EQ(entry(state, "group.1.lr").item(), 0.5);
  EXPECT_EQ(entry(state, "group.1.num_params").item(), 2);
  EXPECT_EQ(entry(state, "group.1.beta2").dtype(), DType::kF64);
  EXPECT_EQ(entry(state, "group.1.param.1.steps").item(), 1);
  EXPECT_EQ(entry(state, "group.1.param.1.exp_avg").shape(), Shape{2});
  EXPECT_TRUE(entry(state, "group.1.param.1.exp_avg_sq")
                  .is(adam.state().at(c.id()).tensors.at("exp_avg_sq")));
}

TEST(OptimizerState, IsACopyOnceLoaded) {
  Tensor a = parameter(1);
  Adam adam({a}, {.lr = 0.25});
  set_grad(a, 1);
  adam.step();
  NamedTensors saved = copy_of(adam.state_dict());
  Adam other({a});
  other.load_state_dict(saved);
  entry(saved, "group.0.param.0.exp_avg").zero_();
  EXPECT_TRUE(bitwise_equal(other.state().at(a.id()).tensors.at("exp_avg"),
                            adam.state().at(a.id()).tensors.at("exp_avg")));
  EXPECT_EQ(other.param_groups()[0].options.at("lr"), 0.25);
}

TEST(OptimizerState, ForgetsParametersThatHadTakenNoStep) {
  Tensor a = parameter(1);
  Adam adam({a});
  const NamedTensors fresh = adam.state_dict();
  set_grad(a, 1);
  adam.step();
  adam.load_state_dict(fresh);
  EXPECT_TRUE(adam.state().empty());
}

TEST(OptimizerState, RefusesWhatDoesNotFitAndStaysAsItWas) {
  Tensor a = parameter(1);
  Adam adam({a}, {.lr = 0.25});
  set_grad(a, 1);
  adam.step();
  const NamedTensors good = copy_of(adam.state_dict());
  const auto error = [&](const std::function<void(NamedTensors&)>& spoil) {
    NamedTensors bad = copy_of(good);
    entry(bad, "group.0.lr").fill_(0.5);  // would be seen if anything were taken over
    spoil(bad);
    const std::string text = error_of([&] { adam.load_state_dict(bad); });
    EXPECT_EQ(adam.param_groups()[0].options.at("lr"), 0.25);
    EXPECT_EQ(adam.state().at(a.id()).steps, 1);
    return text;
  };
  const auto without = [](const std::string& name) {
    return [name](NamedTensors& state) {
      std::erase_if(state, [&](const auto& item) { return item.first == name; });
    };
  };
  const auto with = [](const std::string& name, const Tensor& tensor) {
    return [=](NamedTensors& state) { entry(state, name) = tensor; };
  };
  EXPECT_THAT(error(without("group.0.beta1")), HasSubstr("'group.0.beta1' is missing"));
  EXPECT_THAT(error(without("group.0.param.0.exp_avg")),
              HasSubstr("'group.0.param.0.exp_avg' is missing"));
  EXPECT_THAT(error(without("group.0.param.0.steps")), HasSubstr("is unexpected"));
  EXPECT_THAT(error([](NamedTensors& s) { s.emplace_back("group.1.lr", Tensor::scalar(1)); }),
              HasSubstr("'group.1.lr' is unexpected"));
  EXPECT_THAT(error([](NamedTensors& s) { s.push_back(s.back()); }), HasSubstr("appears twice"));
  EXPECT_THAT(error(with("group.0.param.0.exp_avg", Tensor::zeros({3}))),
              HasSubstr("is float32 [3]: expected float32 [2]"));
  EXPECT_THAT(error(with("group.0.lr", Tensor::scalar(1))),
              HasSubstr("is float32 []: expected float64 []"));
  EXPECT_THAT(error(with("group.0.lr", Tensor::scalar(-1, DType::kF64))), HasSubstr("lr=-1"));
  EXPECT_THAT(error(with("group.0.param.0.steps", Tensor::scalar(0, DType::kI64))),
              HasSubstr("steps' is 0"));
  EXPECT_THAT(error(with("group.0.num_params", Tensor::scalar(2, DType::kI64))),
              HasSubstr("'group.0.num_params' is 2, but the group has 1 parameters"));
  EXPECT_THAT(error_of([&] { SGD({a}).load_state_dict(good); }), HasSubstr("is missing"));
}

}  // namespace
}  // namespace optim
}  // namespace hvd
