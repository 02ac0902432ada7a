// Training over ranks against training on one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/collectives/broadcast.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/optim/optimizers.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/distributed/worlds.h"

namespace hvd {
namespace {

constexpr std::int64_t kBatch = 12;

// Rows first, first + stride, ... of step `step`'s batch of a linear problem.
struct Batch {
  Tensor inputs;
  Tensor targets;
};
Batch rows_of_batch(std::int64_t step, std::int64_t first, std::int64_t stride) {
  const std::int64_t rows = kBatch / stride;
  Batch batch{Tensor::empty({rows, 3}), Tensor::empty({rows, 1})};
  for (std::int64_t row = 0; row < rows; ++row) {
    float* input = batch.inputs.data<float>() + row * 3;
    for (std::int64_t i = 0; i < 3; ++i) {
      input[i] = static_cast<float>((step * 7 + (row * stride + first) * 3 + i * i) % 5) - 2;
    }
    batch.targets.data<float>()[row] = input[0] - 2 * input[1] + 0.5f * input[2];
  }
  return batch;
}

nn::Linear fresh_model() {
  manual_seed(11);
  return nn::Linear(3, 1);
}

std::shared_ptr<optim::Optimizer> momentum_sgd(nn::Module& model) {
  return std::make_shared<optim::SGD>(model.parameters(),
                                      optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
}

void backward(nn::Module& model, const Batch& batch) {
  mse_loss(model(batch.inputs), batch.targets).backward();
}

// Every rank has bitwise the same parameters, near those of `alone`.
void expect_equal(const std::vector<Tensor>& together, const Tensor& alone, double tolerance) {
  for (const Tensor& parameters : together) {
    EXPECT_TRUE(bitwise_equal(parameters, together[0]));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(parameters.to_vector()[i], alone.to_vector()[i], tolerance);
    }
  }
}

using Train =
    std::function<void(nn::Module& model, optim::Optimizer& optimizer, int rank, int size)>;

Tensor train_alone(const Train& train) {
  nn::Linear model = fresh_model();
  train(model, *momentum_sgd(model), 0, 1);
  return model.parameters()[0].detach().clone();
}

std::vector<Tensor> train_together(int size, const Train& train, DistributedOptions options = {},
                                   const WorldsSetup& setup = {}) {
  std::vector<Tensor> together(static_cast<std::size_t>(size));
  run_sets(
      size,
      [&](const ProcessSet& all) {
        nn::Linear model = fresh_model();
        DistributedOptions mine = options;
        mine.process_set = all;
        DistributedOptimizer optimizer(momentum_sgd(model), model.named_parameters(), mine);
        train(model, optimizer, all.rank(), size);
        together[static_cast<std::size_t>(all.rank())] = model.parameters()[0].detach().clone();
      },
      setup);
  return together;
}

void train_plainly(nn::Module& model, optim::Optimizer& optimizer, int rank, int size) {
  for (std::int64_t step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    backward(model, rows_of_batch(step, rank, size));
    optimizer.step();
  }
}

// Data parallelism is exact: N ranks over batch B/N take the steps of one rank over batch B.
TEST(Training, OverRanksIsThatOfOneRankOverTheWholeBatch) {
  const Tensor alone = train_alone(train_plainly);
  for (const int size : {1, 2, 3, 4}) {
    expect_equal(train_together(size, train_plainly), alone, 1e-5);
    expect_equal(train_together(size, train_plainly, {.num_groups = 1}), alone, 1e-5);
  }
}

TEST(Training, InDeterministicModeRepeatsBitwise) {
  WorldsSetup setup;
  setup.world.bucket_bytes = 8;
  setup.sim.max_delay = std::chrono::microseconds(200);
  const auto first = train_together(3, train_plainly, {}, setup);
  setup.sim.seed = 99;
  const auto second = train_together(3, train_plainly, {}, setup);
  EXPECT_TRUE(bitwise_equal(first[0], second[0]));
}

// Two halves of a rank's rows, one pass each.
TEST(Training, WithAccumulatedHalvesIsThatOfWholeBatches) {
  const Train halves = [](nn::Module& model, optim::Optimizer& optimizer, int rank, int size) {
    for (std::int64_t step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      backward(model, rows_of_batch(step, rank, 2 * size));
      backward(model, rows_of_batch(step, rank + size, 2 * size));
      optimizer.step();
    }
  };
  const Tensor alone = train_alone(train_plainly);
  for (const int size : {1, 2, 3}) {
    expect_equal(
        train_together(size, halves,
                       {.backward_passes_per_step = 2, .average_aggregated_gradients = true}),
        alone, 1e-5);
  }
}

TEST(Training, WithNoSyncIsThatOfWholeBatches) {
  const Train halves = [](nn::Module& model, optim::Optimizer& optimizer, int rank, int size) {
    auto& distributed = dynamic_cast<DistributedOptimizer&>(optimizer);
    for (std::int64_t step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      {
        const auto guard = distributed.no_sync();
        backward(model, rows_of_batch(step, rank, 2 * size));
      }
      backward(model, rows_of_batch(step, rank + size, 2 * size));
      optimizer.step();
    }
  };
  const Tensor alone = train_alone(train_plainly);
  for (const int size : {1, 2, 3}) {
    expect_equal(train_together(size, halves, {.average_aggregated_gradients = true}), alone, 1e-5);
  }
}

// Rank r has `steps[r]` batches; alone: the mean over the ranks that still have one.
TEST(Training, WithUnevenBatchesAndJoinIsTheMeanOfWhoContributes) {
  const std::vector<std::int64_t> steps = {6, 2, 6, 4};
  constexpr int kRanks = 4;
  nn::Linear alone = fresh_model();
  const auto optimizer = momentum_sgd(alone);
  for (std::int64_t step = 0; step < 6; ++step) {
    optimizer->zero_grad();
    const auto active = static_cast<double>(
        std::count_if(steps.begin(), steps.end(), [&](std::int64_t n) { return n > step; }));
    for (int rank = 0; rank < kRanks; ++rank) {
      if (steps[static_cast<std::size_t>(rank)] <= step) continue;
      const Batch batch = rows_of_batch(step, rank, kRanks);
      (mse_loss(alone(batch.inputs), batch.targets) * (1 / active)).backward();
    }
    optimizer->step();
  }
  std::vector<Tensor> together(kRanks);
  std::vector<Tensor> momenta(kRanks);
  run_sets(kRanks, [&](const ProcessSet& all) {
    const auto rank = static_cast<std::size_t>(all.rank());
    nn::Linear model = fresh_model();
    DistributedOptimizer distributed(momentum_sgd(model), model.named_parameters(),
                                     {.process_set = all});
    for (std::int64_t step = 0; step < steps[rank]; ++step) {
      distributed.zero_grad();
      backward(model, rows_of_batch(step, all.rank(), kRanks));
      distributed.step();
    }
    const int last = join({.process_set = all});
    broadcast_parameters(model.state_dict(), last, all);
    broadcast_optimizer_state(distributed, last, all);
    together[rank] = model.parameters()[0].detach().clone();
    momenta[rank] = distributed.state().at(model.parameters()[0].id()).tensors.begin()->second;
  });
  expect_equal(together, alone.parameters()[0], 1e-5);
  for (const Tensor& momentum : momenta) EXPECT_TRUE(bitwise_equal(momentum, momenta[0]));
}

// A classifier large enough for powersgd: its loss after some steps.
double loss_after_training(const ProcessSet& all, const Compression& compression, int steps) {
  manual_seed(5);
  nn::Sequential model(nn::Linear(24, 32), nn::ReLU(), nn::Linear(32, 24));
  Generator data(static_cast<std::uint64_t>(100 + all.rank()));
  DistributedOptimizer optimizer(
      std::make_shared<optim::Adam>(model.parameters(), optim::AdamOptions{.lr = 0.01}),
      model.named_parameters(), {.compression = compression, .process_set = all});
  double loss = 0;
  for (int step = 0; step < steps; ++step) {
    const Tensor inputs = randn({16, 24}, DType::kF32, data);
    optimizer.zero_grad();
    const Tensor output = mse_loss(model(inputs), relu(inputs));
    output.backward();
    optimizer.step();
    loss = output.item();
  }
  Tensor mean = Tensor::scalar(loss);
  allreduce_(mean, {.process_set = all});
  return mean.item();
}

TEST(Training, WithCompressionReachesWhatItReachesWithout) {
  run_sets(2, [](const ProcessSet& all) {
    constexpr int kSteps = 150;
    const double start = loss_after_training(all, Compression::none(), 1);
    const double plain = loss_after_training(all, Compression::none(), kSteps);
    EXPECT_LT(plain, 0.3 * start);
    for (const Compression& compression : {Compression::fp16(), Compression::bf16(),
                                           Compression::int8(), Compression::powersgd(4)}) {
      const double compressed = loss_after_training(all, compression, kSteps);
      EXPECT_LT(compressed, plain + 0.1 * start) << compression.name();
    }
  });
}

// Error feedback: gradients far below the block's scale arrive in the end.
TEST(Training, WithInt8DoesNotLoseSmallGradients) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor weight = Tensor::zeros({256});
    weight.requires_grad_();
    DistributedOptimizer optimizer(
        std::make_shared<optim::SGD>(std::vector<Tensor>{weight}, optim::SGDOptions{.lr = 1}), {},
        {.compression = Compression::int8(), .process_set = all});
    Tensor slope = Tensor::full({256}, 0.125);
    slope.data<float>()[0] = 127;  // the scale of the block is 1
    constexpr int kSteps = 64;
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      sum(weight * slope).backward();
      optimizer.step();
    }
    EXPECT_NEAR(weight.to_vector()[9], -0.125 * kSteps, 1.0);
    EXPECT_NEAR(weight.to_vector()[0], -127.0 * kSteps, 1.0);
  });
}

}  // namespace
}  // namespace hvd
