#include <gtest/gtest.h>

#include <cmath>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/optim/clip_grad_norm.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/optim/every_optimizer.h"

// Updates on devices have the bits of the host's.
namespace hvd {
namespace {

std::vector<OptimizerCase> device_optimizers() {
  std::vector<OptimizerCase> cases;
  for (OptimizerCase& each : every_optimizer()) {
    if (each.name.starts_with("sgd") || each.name.starts_with("adam")) {
      cases.push_back(std::move(each));
    }
  }
  return cases;
}

class DeviceOptimizer : public ::testing::TestWithParam<OptimizerCase> {};

Tensor random(DType dtype, std::uint64_t seed) {
  Generator generator(seed);
  return randn({37, 41}, dtype, generator);
}

TEST_P(DeviceOptimizer, TakesTheHostsStepsBitByBit) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Tensor param = random(dtype, 1).requires_grad_();
    Tensor there = param.detach().cuda().requires_grad_();
    const auto host = GetParam().make({param});
    const auto device = GetParam().make({there});
    for (std::uint64_t step = 2; step < 7; ++step) {
      const Tensor gradient = random(dtype, step);
      param.set_grad(gradient);
      there.set_grad(gradient.cuda());
      host->step();
      device->step();
      ASSERT_TRUE(bitwise_equal(there, param)) << "step " << step;
    }
    device->zero_grad(/*set_to_none=*/false);
    EXPECT_EQ(sum(abs(there.grad())).item(), 0.0);
  }
}

TEST_P(DeviceOptimizer, GoesOnFromTheStateOfTheHost) {
  Tensor param = random(DType::kF32, 1).requires_grad_();
  const auto host = GetParam().make({param});
  param.set_grad(random(DType::kF32, 2));
  host->step();
  Tensor there = param.detach().cuda().requires_grad_();
  const auto device = GetParam().make({there});
  device->load_state_dict(host->state_dict());
  param.set_grad(random(DType::kF32, 3));
  there.set_grad(param.grad().cuda());
  host->step();
  device->step();
  EXPECT_TRUE(bitwise_equal(there, param));
}

TEST(DeviceClipping, ScalesTheGradientsOfAllDevicesByOneNorm) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    for (const double norm_type : {1.0, 2.0}) {
      std::vector<Tensor> params;
      for (const bool on_device : {false, true}) {
        const Tensor gradient = Tensor::full({2, 2}, on_device ? 4 : -2, dtype);
        params.push_back((on_device ? gradient.cuda() : gradient).clone().requires_grad_());
        params.back().set_grad(params.back().detach().clone());
      }
      const double norm = norm_type == 1 ? 24 : std::sqrt(80.0);
      EXPECT_EQ(optim::clip_grad_norm_(params, 1000, {.norm_type = norm_type}), norm);
      EXPECT_EQ(sum(params[1].grad()).item(), 16);
      EXPECT_EQ(optim::clip_grad_norm_(params, norm / 2, {.norm_type = norm_type}), norm);
      EXPECT_NEAR(sum(params[0].grad()).item(), -4, 0.02);
      EXPECT_NEAR(sum(params[1].grad()).item(), 8, 0.04);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DeviceOptimizer, ::testing::ValuesIn(device_optimizers()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace hvd
