#include "horovod_cpp/dist/distributed_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions.h"
#include "horovod_cpp/nn/layers.h"
#include "horovod_cpp/optim/sgd.h"
#include "test/horovod_cpp/dist/worlds.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor weight_of(double value) {
  Tensor weight = Tensor::full({2}, value);
  weight.requires_grad_();
  return weight;
}

// SGD with a learning rate of 1 around the given parameters, named by position.
std::unique_ptr<DistributedOptimizer> distributed_sgd(std::vector<Tensor> params,
                                                      DistributedOptions options) {
  return std::make_unique<DistributedOptimizer>(
      std::make_shared<optim::SGD>(std::move(params), optim::SGDOptions{.lr = 1}), NamedTensors{},
      std::move(options));
}

TEST(DistributedOptimizer, AppliesTheAverageGradientOnEveryRank) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor weight = weight_of(10);
    const auto optimizer = distributed_sgd({weight}, {.world = world});
    // d/dw of sum(w * (rank + 1)): 1 on rank 0, 2 on rank 1.
    sum(weight * static_cast<double>(world->topology().rank + 1)).backward();
    optimizer->step();
    EXPECT_THAT(weight.to_vector(), ElementsAre(8.5, 8.5));
  });
}

TEST(DistributedOptimizer, SumsWhenAsked) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor weight = weight_of(10);
    const auto optimizer = distributed_sgd({weight}, {.op = ReduceOp::kSum, .world = world});
    sum(weight * static_cast<double>(world->topology().rank + 1)).backward();
    optimizer->step();
    EXPECT_THAT(weight.to_vector(), ElementsAre(7, 7));
  });
}

TEST(DistributedOptimizer, ReducesOnceForSeveralBackwardPasses) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor weight = weight_of(0);
    const auto optimizer =
        distributed_sgd({weight}, {.backward_passes_per_step = 2, .world = world});
    for (int pass = 0; pass < 2; ++pass) {
      sum(weight * static_cast<double>(world->topology().rank + 1)).backward();
    }
    optimizer->step();
    EXPECT_THAT(weight.to_vector(), ElementsAre(-3, -3));  // (2 * 1 + 2 * 2) / 2 ranks
  });
}

TEST(DistributedOptimizer, AGradientThatOnlyOneRankHasIsAveragedWithZeros) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor used = weight_of(0);
    Tensor sometimes = weight_of(0);
    const auto optimizer = distributed_sgd({used, sometimes}, {.world = world});
    Tensor loss = sum(used);
    if (world->topology().rank == 1) loss = loss + sum(sometimes * 4.0);
    loss.backward();
    optimizer->step();
    EXPECT_THAT(sometimes.to_vector(), ElementsAre(-2, -2));
  });
}

TEST(DistributedOptimizer, SynchronizeMayBeCalledAgain) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor weight = weight_of(0);
    const auto optimizer = distributed_sgd({weight}, {.op = ReduceOp::kSum, .world = world});
    sum(weight).backward();
    optimizer->synchronize();
    optimizer->synchronize();
    EXPECT_THAT(weight.grad().to_vector(), ElementsAre(2, 2));
    weight.grad().mul_(0.5);  // clipping by hand stays in force
    optimizer->step();
    EXPECT_THAT(weight.to_vector(), ElementsAre(-1, -1));
  });
}

TEST(DistributedOptimizer, ZeroGradWhileReductionsAreInFlightIsRefused) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor weight = weight_of(0);
    const auto optimizer = distributed_sgd({weight}, {.world = world});
    sum(weight).backward();
    EXPECT_THROW(optimizer->zero_grad(), InvalidArgumentError);
    optimizer->step();
    optimizer->zero_grad();
    EXPECT_FALSE(weight.grad().defined());
  });
}

TEST(DistributedOptimizer, OneBackwardTooManyIsAnErrorThatSaysWhatToDo) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor weight = weight_of(0);
    const auto optimizer = distributed_sgd({weight}, {.world = world});
    sum(weight).backward();
    try {
      sum(weight).backward();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgumentError& error) {
      EXPECT_THAT(error.what(), HasSubstr("backward_passes_per_step=1"));
      EXPECT_THAT(error.what(), HasSubstr("'parameter.0.0'"));
    }
    optimizer->synchronize();
  });
}

TEST(DistributedOptimizer, RefusesBadArguments) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor a = weight_of(0);
    Tensor b = weight_of(0);
    const auto sgd = std::make_shared<optim::SGD>(std::vector<Tensor>{a, b});
    const DistributedOptions options{.world = world};
    EXPECT_THROW(DistributedOptimizer(nullptr, {}, options), InvalidArgumentError);
    EXPECT_THROW(DistributedOptimizer(sgd, {{"x", a}, {"x", b}}, options), InvalidArgumentError);
    EXPECT_THROW(DistributedOptimizer(sgd, {{"x", a}}, options), InvalidArgumentError);
    EXPECT_THROW(DistributedOptimizer(sgd, {}, {.backward_passes_per_step = 0, .world = world}),
                 InvalidArgumentError);
    EXPECT_THROW(DistributedOptimizer(sgd, {}, {}), InvalidArgumentError);  // before init()
  });
}

// The gradients of the last layers are reduced while backward has not reached the first ones.
TEST(DistributedOptimizer, ReducesWhileBackwardStillRuns) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor first = weight_of(1);
    Tensor last = weight_of(1);
    const auto optimizer = distributed_sgd({first, last}, {.world = world});
    double last_when_first_was_ready = 0;
    // Runs after the optimizer's hook of `first`; `last` was submitted before, so it can be waited
    // for here, in the middle of backward.
    first.register_hook([&](const Tensor&) {
      const auto deadline = Clock::now() + std::chrono::seconds(30);
      while (last.grad().to_vector()[0] != 3 && Clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      last_when_first_was_ready = last.grad().to_vector()[0];
    });
    // d/dlast = factor, on average 3; d/dfirst comes after it, through relu.
    const double factor = world->topology().rank * 2 + 2;
    sum(relu(first) * last * factor).backward();
    optimizer->step();
    EXPECT_EQ(last_when_first_was_ready, 3);
  });
}

// Data parallelism is exact: N ranks over batch B/N take the steps of one rank over batch B.
TEST(DistributedOptimizer, TrainsAsOneRankOverTheWholeBatchWould) {
  constexpr int kRanks = 4;
  constexpr std::int64_t kBatch = 16;
  const auto make_batch = [](std::int64_t step, std::int64_t row, double* input, double* target) {
    for (int i = 0; i < 3; ++i) input[i] = static_cast<double>((step * 7 + row * 3 + i) % 5) - 2;
    *target = input[0] - 2 * input[1] + 0.5 * input[2];
  };
  const auto train = [&](int ranks, int rank, const auto& make_optimizer) {
    manual_seed(11);
    nn::Linear model(3, 1);
    const auto optimizer = make_optimizer(model);
    for (std::int64_t step = 0; step < 20; ++step) {
      const std::int64_t rows = kBatch / ranks;
      Tensor inputs = Tensor::empty({rows, 3}, DType::kF32);
      Tensor targets = Tensor::empty({rows, 1}, DType::kF32);
      for (std::int64_t row = 0; row < rows; ++row) {
        double input[3];
        double target = 0;
        make_batch(step, row * ranks + rank, input, &target);
        for (int i = 0; i < 3; ++i) {
          inputs.data<float>()[row * 3 + i] = static_cast<float>(input[i]);
        }
        targets.data<float>()[row] = static_cast<float>(target);
      }
      optimizer->zero_grad();
      mse_loss(model(inputs), targets).backward();
      optimizer->step();
    }
    return model.parameters()[0].detach().clone();
  };
  const auto sgd = [](nn::Module& model) {
    return std::make_shared<optim::SGD>(model.parameters(),
                                        optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
  };
  const Tensor alone = train(1, 0, sgd);
  std::vector<Tensor> together(kRanks);
  run_worlds(kRanks, [&](const std::shared_ptr<World>& world) {
    const int rank = world->topology().rank;
    together[static_cast<std::size_t>(rank)] =
        train(kRanks, rank, [&](nn::Module& model) -> std::shared_ptr<optim::Optimizer> {
          return std::make_shared<DistributedOptimizer>(sgd(model), model.named_parameters(),
                                                        DistributedOptions{.world = world});
        });
  });
  for (const Tensor& parameters : together) {
    EXPECT_TRUE(bitwise_equal(parameters, together[0]));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(parameters.to_vector()[i], alone.to_vector()[i], 1e-5);
    }
  }
}

}  // namespace
}  // namespace hvd
