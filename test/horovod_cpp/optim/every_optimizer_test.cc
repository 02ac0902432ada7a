// What holds for all optimizers, and what PyTorch's give (test/support/reference/optim.py).
#include "test/horovod_cpp/optim/every_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/optim/rules.h"
#include "test/horovod_cpp/optim/optim_reference.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace optim {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr std::int64_t kSteps = 6;

class EveryOptimizer : public ::testing::TestWithParam<OptimizerCase> {
 protected:
  std::shared_ptr<Optimizer> make(const std::vector<Tensor>& params) const {
    return GetParam().make(params);
  }
};

// 21 elements: no multiple of a register. Gradients of element 0 are always 0.
Tensor initial(DType dtype) {
  return optim_reference("optim/initial").to(dtype).clone().requires_grad_();
}

Tensor gradient(std::int64_t step, DType dtype) {
  return optim_reference("optim/grads").select(0, step).to(dtype).clone();
}

void train(Optimizer& optimizer, Tensor& param, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = first; step < last; ++step) {
    param.set_grad(gradient(step, param.dtype()));
    optimizer.step();
  }
}

TEST_P(EveryOptimizer, TakesPyTorchsSteps) {
  for (const auto& [dtype, tolerance] : {std::pair{DType::kF64, 1e-14}, {DType::kF32, 4e-6}}) {
    Tensor param = initial(dtype);
    const auto optimizer = make({param});
    for (std::int64_t step = 0; step < kSteps; ++step) {
      train(*optimizer, param, step, step + 1);
      const Tensor expected = optim_reference(GetParam().name + "/params").select(0, step);
      ASSERT_THAT(param.to_vector(), Pointwise(DoubleNear(tolerance), expected.to_vector()))
          << name_of(dtype) << " step " << step;
      EXPECT_TRUE(bitwise_equal(param.grad(), gradient(step, dtype)));  // it is left alone
    }
  }
}

TEST_P(EveryOptimizer, ResumesBitwiseFromItsStateDict) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    Tensor whole = initial(dtype);
    const auto uninterrupted = make({whole});
    train(*uninterrupted, whole, 0, kSteps);
    Tensor halves = initial(dtype);
    const TemporaryFolder folder;
    {
      const auto first = make({halves});
      train(*first, halves, 0, 3);
      io::save(folder.file("a"), first->state_dict());
    }
    const auto second = make({halves});
    second->load_state_dict(io::load(folder.file("a")).tensors);
    train(*second, halves, 3, kSteps);
    EXPECT_TRUE(bitwise_equal(whole, halves)) << name_of(dtype);
  }
}

TEST_P(EveryOptimizer, StepsByParameterAsItStepsAllOfThem) {
  const auto run = [&](bool one_by_one) {
    std::vector<Tensor> params = {initial(DType::kF32), initial(DType::kF32).detach().mul_(0.5)};
    params[1].requires_grad_();
    const auto optimizer = make(params);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      for (Tensor& param : params) param.set_grad(gradient(step, DType::kF32));
      if (one_by_one) {
        optimizer->step_parameters({params[1]});
        optimizer->step_parameters({params[0]});
      } else {
        optimizer->step();
      }
    }
    return params;
  };
  const auto together = run(false);
  const auto apart = run(true);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(bitwise_equal(together[i], apart[i])) << i;
}

TEST_P(EveryOptimizer, UpdatesHalfPrecisionThroughFloat32) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Tensor half = initial(dtype);
    Tensor exact = half.detach().to(DType::kF32).clone().requires_grad_();
    const auto of_half = make({half});
    const auto of_exact = make({exact});
    for (std::int64_t step = 0; step < kSteps; ++step) {
      half.set_grad(gradient(step, dtype));
      exact.set_grad(gradient(step, dtype).to(DType::kF32));
      of_half->step();
      of_exact->step();
    }
    EXPECT_TRUE(bitwise_equal(half.detach(), exact.detach().to(dtype)));
    EXPECT_TRUE(
        bitwise_equal(of_half->state().at(half.id()).tensors.at("master_param"), exact.detach()));
  }
}

TEST_P(EveryOptimizer, RefusesOptionsOutOfRange) {
  const auto optimizer = make({initial(DType::kF32)});
  const Options options = optimizer->param_groups()[0].options;
  for (const char* name : {"lr", "weight_decay", "eps", "momentum", "lr_decay",
                           "initial_accumulator_value", "beta1", "beta2", "alpha", "rho"}) {
    if (!options.contains(name)) continue;
    const auto refused = [&](double value) {
      ParamGroup group{{initial(DType::kF32)}, {{name, value}}};
      return message_of<InvalidArgumentError>(
          [&] { optimizer->add_param_group(std::move(group)); });
    };
    EXPECT_THAT(refused(-0.5), HasSubstr(std::string(name) + "=-0.5"));
    EXPECT_THAT(refused(std::nan("")), HasSubstr(name));
  }
  EXPECT_EQ(optimizer->param_groups().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryOptimizer, ::testing::ValuesIn(every_optimizer()),
                         [](const auto& instance) { return instance.param.name; });

TEST(HalfPrecision, KeepsStepsThatAreTooSmallForIt) {
  Tensor param = Tensor::ones({1}, DType::kBF16).requires_grad_();
  SGD sgd({param}, {.lr = 0x1p-10});
  for (int step = 0; step < 8; ++step) {
    param.set_grad(Tensor::ones({1}, DType::kBF16));
    sgd.step();
  }
  EXPECT_EQ(param.item(), 1 - 0x1p-7);  // one step alone would round back to 1
}

TEST(HalfPrecision, TakesOverWhatSomeoneElseWrote) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Tensor param = Tensor::ones({2}, dtype).requires_grad_();
    SGD sgd({param}, {.lr = 0.25});
    param.set_grad(Tensor::ones({2}, dtype));
    sgd.step();
    param.detach().slice(0, 1, 2).fill_(4);
    sgd.step();
    EXPECT_THAT(param.to_vector(), ::testing::ElementsAre(0.5, 3.75));
  }
}

TEST(HalfPrecision, RefusesAMasterThatDoesNotFit) {
  Tensor param = Tensor::ones({2}, DType::kBF16).requires_grad_();
  SGD sgd({param});
  param.set_grad(Tensor::ones({2}, DType::kBF16));
  sgd.state()[param.id()].tensors["master_param"] = Tensor::ones({});
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { sgd.step(); }),
              HasSubstr("'master_param' is float32 []: expected float32 [2]"));
}

TEST(HalfPrecision, EndsWithItsMaster) {
  Tensor half = Tensor::ones({2}, DType::kF16).requires_grad_();
  SGD of_half({half}, {.lr = 0.5, .momentum = 0.5});
  half.set_grad(Tensor::ones({2}, DType::kF16));
  of_half.step();
  Tensor param = half.detach().to(DType::kF32).requires_grad_();
  SGD sgd({param}, {.lr = 0.5, .momentum = 0.5});
  sgd.load_state_dict(of_half.state_dict());
  EXPECT_FALSE(sgd.state().at(param.id()).tensors.contains("master_param"));
  sgd.state().at(param.id()).tensors["master_param"] = Tensor::ones({2});  // as float() leaves it
  param.set_grad(Tensor::ones({2}));
  sgd.step();
  EXPECT_THAT(param.to_vector(), ::testing::Each(-0.25));
  EXPECT_FALSE(sgd.state().at(param.id()).tensors.contains("master_param"));
}

TEST(HalfPrecision, NeedsItsMasterInAStateDict) {
  Tensor param = Tensor::ones({2}, DType::kBF16).requires_grad_();
  Adam adam({param});
  param.set_grad(Tensor::ones({2}, DType::kBF16));
  adam.step();
  NamedTensors state = adam.state_dict();
  std::erase_if(state, [](const auto& entry) { return entry.first.ends_with("master_param"); });
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { adam.load_state_dict(state); }),
              HasSubstr("'group.0.param.0.master_param' is missing"));
}

TEST(Sgd, ReadsAGradientThatIsNotContiguous) {
  const std::vector<double> values = {1, 2, 3, 4};
  Tensor w = Tensor::zeros({2, 2}, DType::kF64).requires_grad_();
  SGD sgd({w}, {.lr = 1});
  w.set_grad(Tensor::from(values, {2, 2}).t());
  sgd.step();
  EXPECT_THAT(w.to_vector(), ::testing::ElementsAre(-1, -3, -2, -4));
}

TEST(Sgd, TakesNesterovWithMomentumAndWithoutDampeningOnly) {
  const Tensor w = initial(DType::kF32);
  EXPECT_THROW(SGD({w}, {.nesterov = true}), InvalidArgumentError);
  EXPECT_THROW(SGD({w}, {.momentum = 0.5, .dampening = 0.5, .nesterov = true}),
               InvalidArgumentError);
}

TEST(Adam, KeepsItsMomentsAndSteps) {
  Tensor w = Tensor::zeros({1}, DType::kF64).requires_grad_();
  Adam adam({w}, {.betas = {0.5, 0.75}});
  w.set_grad(Tensor::full({1}, 4, DType::kF64));
  adam.step();
  const ParamState& state = adam.state().at(w.id());
  EXPECT_EQ(state.steps, 1);
  EXPECT_EQ(state.tensors.at("exp_avg").item(), 2);
  EXPECT_EQ(state.tensors.at("exp_avg_sq").item(), 4);
  EXPECT_THROW(Adam({w}, {.betas = {1.0, 0.999}}), InvalidArgumentError);
}

TEST(Lamb, StepsByTheLearningRateAloneFromZero) {
  Tensor param = Tensor::zeros({2}, DType::kF64).requires_grad_();
  LAMB lamb({param}, {.lr = 0.25, .eps = 0});
  param.set_grad(Tensor::full({2}, 3, DType::kF64));
  lamb.step();  // |param| = 0: the ratio counts as 1, and r = 1
  EXPECT_THAT(param.to_vector(), Pointwise(DoubleNear(1e-15), {-0.25, -0.25}));
}

TEST(RmsProp, CountsANegativeVarianceAsZero) {
  const RmspropRule<double> rule = {.lr = 1, .alpha = 1, .take = 0, .eps = 0.5};
  double param = 0, square = 1, mean = 2;
  const double grad = 2;
  update_table().of<double>().rmsprop(rule, 1, &param, &grad, &square, &mean, nullptr);
  EXPECT_EQ(param, -4);  // 2 / (sqrt(0) + 0.5)
}

}  // namespace
}  // namespace optim
}  // namespace hvd
