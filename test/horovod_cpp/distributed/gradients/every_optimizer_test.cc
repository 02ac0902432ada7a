// DistributedOptimizer and broadcast_optimizer_state around every optimizer, and schedules on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/collectives/broadcast.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/optim/lr_scheduler.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/horovod_cpp/optim/every_optimizer.h"

namespace hvd {
namespace {

class DistributedEveryOptimizer : public ::testing::TestWithParam<OptimizerCase> {};

std::vector<Tensor> make_params(double start = 1) {
  std::vector<Tensor> params;
  for (const std::int64_t numel : {5, 1, 33, 200}) {
    Tensor param = Tensor::empty({numel});
    for (std::int64_t i = 0; i < numel; ++i) {
      param.data<float>()[i] =
          static_cast<float>(start + static_cast<double>(i * 7 % 13) / 3 - 1.7);
    }
    params.push_back(param.requires_grad_());
  }
  return params;
}

// Gradients round and differ by rank and step.
void backward(const std::vector<Tensor>& params, int rank, int step) {
  Tensor loss = Tensor::scalar(0);
  for (std::size_t i = 0; i < params.size(); ++i) {
    const double factor = 0.1 + 0.37 * rank + 0.011 * step * static_cast<double>(i);
    loss = loss + sum(params[i] * params[i] * factor);
  }
  loss.backward();
}

std::vector<Tensor> train(const MakeOptimizer& make, DistributedOptions options) {
  std::vector<Tensor> params = make_params();
  DistributedOptimizer optimizer(make(params), {}, options);
  optim::lr_scheduler::ExponentialLR schedule(optimizer, 0.9);
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    backward(params, options.process_set.rank(), step);
    optimizer.step();
    schedule.step();
  }
  return params;
}

void expect_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(a[i].detach(), b[i].detach())) << "parameter " << i;
  }
}

TEST_P(DistributedEveryOptimizer, TakesTheSameStepHoweverGradientsTravel) {
  run_sets(2, [&](const ProcessSet& all) {
    const auto plain =
        train(GetParam().make, {.gradient_as_bucket_view = false, .process_set = all});
    expect_same_bits(plain, train(GetParam().make, {.process_set = all}));
    expect_same_bits(plain, train(GetParam().make, {.overlap_step = true, .process_set = all}));
    EXPECT_FALSE(bitwise_equal(plain[0].detach(), make_params()[0].detach()));
  });
}

TEST_P(DistributedEveryOptimizer, GoesOnAlikeOnAllRanksAfterABroadcastOfItsState) {
  run_sets(3, [&](const ProcessSet& all) {
    const bool root = all.rank() == 1;
    std::vector<Tensor> params = make_params(root ? 1 : 2);
    params[3] = params[3].detach().to(DType::kBF16).clone().requires_grad_();
    const auto optimizer = GetParam().make(params);
    if (root) {
      for (int step = 0; step < 2; ++step) {
        optimizer->zero_grad();
        for (Tensor& param : params) param.set_grad(param.detach().clone());
        optimizer->step();
      }
    }
    NamedTensors named;
    for (const Tensor& param : params) named.emplace_back(std::to_string(named.size()), param);
    broadcast_parameters(named, 1, all);
    broadcast_optimizer_state(*optimizer, 1, all);
    for (int step = 0; step < 2; ++step) {
      for (Tensor& param : params) param.set_grad(param.detach().clone());
      optimizer->step();
    }
    for (const Tensor& param : params) {
      Tensor of_root = param.detach().clone();
      broadcast_parameters({{"p", of_root}}, 1, all);
      EXPECT_TRUE(bitwise_equal(of_root, param.detach()));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, DistributedEveryOptimizer, ::testing::ValuesIn(every_optimizer()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace hvd
