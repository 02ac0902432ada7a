#include "horovod_cpp/autograd/modes.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/data_parallel.h"
#include "horovod_cpp/distributed/distributed_data_parallel.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/distributed/sync_batch_norm.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/optim/optimizers.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/distributed/worlds.h"

namespace hvd {
namespace {

std::shared_ptr<nn::Sequential> conv_net() {
  manual_seed(7);
  return std::make_shared<nn::Sequential>(nn::Conv2d(2, 4, 3, 1, 1), nn::BatchNorm2d(4), nn::ReLU(),
                                          nn::Flatten(), nn::Linear(4 * 16, 3));
}

Tensor images(std::uint64_t seed) {
  Generator generator(seed);
  return randn({6, 2, 4, 4}, DType::kF32, generator);
}

Tensor loss_of(nn::Module& model, const Tensor& input) {
  const AutocastGuard autocast;
  return cross_entropy(model(input), Tensor::zeros({6}, DType::kI64));
}

// All ranks have the same bits, in float32.
void expect_equal_parameters(const nn::Module& model, const ProcessSet& set) {
  for (const auto& [path, parameter] : model.named_parameters()) {
    EXPECT_EQ(parameter.dtype(), DType::kF32) << path;
    const Tensor all =
        allgather(parameter.detach().reshape({1, -1}), {.name = path, .process_set = set});
    for (std::int64_t rank = 1; rank < all.size(0); ++rank) {
      EXPECT_TRUE(bitwise_equal(all.select(0, rank).clone(), all.select(0, 0).clone())) << path;
    }
  }
}

TEST(AutocastDistributedOptimizer, LeavesEqualFloat32ParametersOnBothRanks) {
  run_sets(2, [](const ProcessSet& set) {
    const auto model = conv_net();
    DistributedOptimizer optimizer(
        std::make_shared<optim::SGD>(model->parameters(), optim::SGDOptions{.lr = 0.1}),
        model->named_parameters(), {.process_set = set});
    double first = 0.0;
    double last = 0.0;
    for (int step = 0; step < 8; ++step) {
      optimizer.zero_grad();
      const Tensor loss = loss_of(*model, images(static_cast<std::uint64_t>(set.rank()) + 1));
      loss.backward();
      optimizer.step();
      (step == 0 ? first : last) = loss.item();
    }
    EXPECT_LT(last, first);
    expect_equal_parameters(*model, set);
  });
}

TEST(AutocastDistributedDataParallel, LeavesEqualFloat32ParametersOnBothRanks) {
  run_sets(2, [](const ProcessSet& set) {
    const auto model = conv_net();
    nn::SyncBatchNorm::convert_sync_batchnorm(*model, set);
    DistributedDataParallel parallel(model, {.process_set = set});
    optim::SGD optimizer(model->parameters(), {.lr = 0.1});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss_of(parallel, images(static_cast<std::uint64_t>(set.rank()) + 1)).backward();
      optimizer.step();
    }
    expect_equal_parameters(*model, set);
  });
}

TEST(AutocastDataParallel, ReplicasAreInTheRegionOfTheCaller) {
  const auto model = std::make_shared<nn::Sequential>(nn::Linear(4, 3), nn::Tanh());
  DataParallel parallel(model, 2);
  const Tensor input = images(1).reshape({48, 4});
  EXPECT_EQ(parallel(input).dtype(), DType::kF32);
  const AutocastGuard autocast;
  const Tensor alone = (*model)(input);  // this thread keeps a copy of the weight
  EXPECT_EQ(alone.dtype(), DType::kBF16);
  const Tensor together = parallel(input);
  EXPECT_TRUE(bitwise_equal(together, alone));
  sum(alone).backward();
  std::vector<Tensor> expected;
  for (Tensor parameter : model->parameters()) {
    expected.push_back(parameter.grad().clone());
    parameter.set_grad({});
  }
  int deliveries = 0;  // a replica that took the caller's copy would deliver on its own
  for (const Tensor& parameter : model->parameters()) {
    parameter.register_hook([&](const Tensor&) { ++deliveries; });
  }
  sum(together).backward();
  EXPECT_EQ(deliveries, 2);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Tensor gradient = model->parameters()[i].grad();
    ASSERT_TRUE(gradient.defined());
    EXPECT_LT(norm(gradient - expected[i]).item(), 1e-2 * norm(expected[i]).item());
  }
}

}  // namespace
}  // namespace hvd
