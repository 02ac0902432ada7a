#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using ::testing::Each;
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
  run_sets(2, [](const ProcessSet& all) {
    Tensor weight = weight_of(10);
    const auto optimizer = distributed_sgd({weight}, {.process_set = all});
    // d/dw of sum(w * (rank + 1)): 1 on rank 0, 2 on rank 1.
    sum(weight * static_cast<double>(all.rank() + 1)).backward();
    optimizer->step();
    EXPECT_THAT(weight.to_vector(), ElementsAre(8.5, 8.5));
  });
}

TEST(DistributedOptimizer, TwoOfEqualNamesMayBeAtWorkAtOnce) {
  run_sets(2, [](const ProcessSet& all) {
    const std::vector<Tensor> first = {weight_of(0), weight_of(0)};
    const std::vector<Tensor> second = {weight_of(0), weight_of(0)};
    const auto one = distributed_sgd(first, {.process_set = all});
    const auto two = distributed_sgd(second, {.process_set = all});
    const auto mine = static_cast<std::size_t>(all.rank());  // each rank uses other parameters
    for (int step = 1; step < 4; ++step) {
      sum(first[mine] * 2 + second[mine] * 4).backward();
      one->step();
      two->step();
      one->zero_grad();
      two->zero_grad();
      for (const Tensor& weight : first) EXPECT_THAT(weight.to_vector(), Each(-step));
      for (const Tensor& weight : second) EXPECT_THAT(weight.to_vector(), Each(-2 * step));
    }
  });
}

TEST(DistributedOptimizer, DoesNotStepWithAGradientThatCouldNotBeSubmitted) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor weight = weight_of(10);
    const auto optimizer = distributed_sgd({weight}, {.process_set = all});
    const BarrierOptions same{.name = "/allreduce.parameter.0.0", .process_set = all};
    if (all.rank() == 0) {
      const auto barring = barrier_async(same);  // until rank 1 comes
      EXPECT_THAT(message_of<InvalidArgumentError>([&] { sum(weight).backward(); }),
                  HasSubstr("'parameter.0.0' (allreduce) is already in flight"));
      EXPECT_THAT(message_of<InvalidArgumentError>([&] { optimizer->step(); }),
                  HasSubstr("in flight"));
      EXPECT_THAT(weight.to_vector(), Each(10));
      barrier({.process_set = all});
      barring.synchronize();
    } else {
      barrier({.process_set = all});
      barrier(same);
    }
    optimizer->zero_grad();
    sum(weight * static_cast<double>(all.rank() + 1)).backward();
    optimizer->step();
    EXPECT_THAT(weight.to_vector(), Each(8.5));
  });
}

TEST(DistributedOptimizer, AGradientThatOnlyOneRankHasIsAveragedWithZeros) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor used = weight_of(0);
    Tensor sometimes = weight_of(0);
    const auto optimizer = distributed_sgd({used, sometimes}, {.process_set = all});
    Tensor loss = sum(used);
    if (all.rank() == 1) loss = loss + sum(sometimes * 4.0);
    loss.backward();
    optimizer->step();
    EXPECT_THAT(sometimes.to_vector(), ElementsAre(-2, -2));
  });
}

TEST(DistributedOptimizer, SynchronizeMayBeCalledAgain) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor weight = weight_of(0);
    const auto optimizer = distributed_sgd({weight}, {.op = ReduceOp::kSum, .process_set = all});
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
  run_sets(2, [](const ProcessSet& all) {
    Tensor weight = weight_of(0);
    const auto optimizer = distributed_sgd({weight}, {.process_set = all});
    sum(weight).backward();
    EXPECT_THROW(optimizer->zero_grad(), InvalidArgumentError);
    optimizer->step();
    optimizer->zero_grad();
    EXPECT_FALSE(weight.grad().defined());
  });
}

TEST(DistributedOptimizer, RefusesBadArguments) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor a = weight_of(0);
    Tensor b = weight_of(0);
    const auto sgd = std::make_shared<optim::SGD>(std::vector<Tensor>{a, b});
    const DistributedOptions options{.process_set = all};
    EXPECT_THROW(DistributedOptimizer(nullptr, {}, options), InvalidArgumentError);
    EXPECT_THROW(DistributedOptimizer(sgd, {{"x", a}, {"x", b}}, options), InvalidArgumentError);
    EXPECT_THROW(DistributedOptimizer(sgd, {{"x", a}}, options), InvalidArgumentError);
    EXPECT_THROW(DistributedOptimizer(sgd, {}, {}), InvalidArgumentError);  // before init()
    const auto complaint = [&](DistributedOptions bad) {
      bad.process_set = all;
      return message_of<InvalidArgumentError>([&] { DistributedOptimizer(sgd, {}, bad); });
    };
    EXPECT_THAT(complaint({.backward_passes_per_step = 0}), HasSubstr("is 0, must be at least 1"));
    for (const double factor : {0.0, -1.0, 1e-40, 1e40}) {
      EXPECT_THAT(complaint({.gradient_predivide_factor = factor}),
                  HasSubstr("must be between 1e-30 and 1e30"));
    }
    EXPECT_THAT(complaint({.op = ReduceOp::kSum, .gradient_predivide_factor = 2}),
                HasSubstr("works with Average, not with Sum"));
    EXPECT_THAT(complaint({.op = ReduceOp::kAdasum, .compression = Compression::fp16()}),
                HasSubstr("compression fp16"));
    EXPECT_THAT(complaint({.op = ReduceOp::kAdasum, .num_groups = 2}), HasSubstr("Adasum"));
    EXPECT_THAT(complaint({.num_groups = -1}), HasSubstr("the number of groups is -1, must not"));
    EXPECT_THAT(complaint({.num_groups = 1, .groups = {{a}}}), HasSubstr("not both"));
    EXPECT_THAT(complaint({.groups = {{a}, {a, b}}}), HasSubstr("groups[1]"));
    EXPECT_THAT(complaint({.groups = {{weight_of(1)}}}), HasSubstr("groups[0]"));
    EXPECT_THAT(complaint({.clip_grad_norm = ClipGradNorm{.max_norm = 0}}), HasSubstr("max_norm"));
  });
}

// The gradients of the last layers are reduced while backward has not reached the first ones: here
// it does not reach them before another rank has the reduced gradient of the last.
TEST(DistributedOptimizer, ReducesWhileBackwardStillRuns) {
  std::atomic<int> submitted{0};
  WorldsSetup setup;
  setup.world.bucket_bytes = 1;  // each on its own
  const auto run = [&](const ProcessSet& all) {
    Tensor first = weight_of(1);
    Tensor last = weight_of(1);
    const auto optimizer = distributed_sgd({first, last}, {.process_set = all});
    bool in_time = false;
    last.register_hook([&](const Tensor& leaf) {    // runs after the optimizer's hook
      if (grad_lock(leaf) != nullptr) ++submitted;  // it is on its way
    });
    first.register_hook([&](const Tensor&) { in_time = submitted.load() > 0; });
    sum(relu(first) * last * 2.0).backward();
    EXPECT_TRUE(in_time);
    optimizer->step();
  };
  run_sets(2, run, setup);
  EXPECT_EQ(submitted.load(), 2);
}

TEST(DistributedOptimizer, SynchronizeThenClippingByHandThenStepReducesOnce) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor weight = weight_of(0);
    const auto optimizer = distributed_sgd({weight}, {.op = ReduceOp::kSum, .process_set = all});
    for (int step = 0; step < 2; ++step) {
      optimizer->zero_grad();
      sum(weight).backward();
      optimizer->synchronize();
      weight.grad().mul_(0.25);
      const auto skip = optimizer->skip_synchronize();
      optimizer->step();
    }
    EXPECT_THAT(weight.to_vector(), ElementsAre(-1, -1));
    sum(weight).backward();
    {
      const auto skip = optimizer->skip_synchronize();
      EXPECT_THAT(message_of<InvalidArgumentError>([&] { optimizer->step(); }),
                  HasSubstr("call synchronize() first"));
    }
    optimizer->step();
  });
}

TEST(DistributedOptimizer, GroupsOfAnyKindGiveTheSameResult) {
  run_sets(2, [](const ProcessSet& all) {
    std::vector<Tensor> params;
    for (int i = 0; i < 5; ++i) params.push_back(weight_of(i));
    params[3] = Tensor::full({2}, 3, DType::kF64);  // a group may have several dtypes
    params[3].requires_grad_();
    const auto step = [&](DistributedOptions options) {
      options.process_set = all;
      for (Tensor& param : params) {
        const NoGradGuard no_grad;
        param.fill_(0);
      }
      const auto optimizer = distributed_sgd(params, options);
      for (const std::size_t used : {0u, 2u, 3u, 4u}) {  // one gets no gradient
        sum(params[used] * static_cast<double>(all.rank() + 1)).backward();
      }
      optimizer->step();
      optimizer->zero_grad();
      for (const std::size_t used : {0u, 2u, 3u, 4u}) EXPECT_EQ(params[used].to_vector()[1], -1.5);
      EXPECT_EQ(params[1].to_vector()[1], 0);
    };
    step({});
    step({.num_groups = 1});
    step({.num_groups = 2});
    step({.num_groups = 9});
    step({.groups = {{params[4], params[0]}, {params[3], params[1]}}});
    step({.gradient_predivide_factor = 4, .num_groups = 2});
  });
}

// Deterministic mode: fixed groups in parameter order, whatever the order of backward.
TEST(DistributedOptimizer, SendsFixedGroupsWhenTheWorldSaysSo) {
  WorldsSetup setup;
  setup.world.bucket_bytes = 16;  // two parameters of two float32 each
  run_sets(
      2,
      [](const ProcessSet& all) {
        std::vector<Tensor> params = {weight_of(0), weight_of(0), weight_of(0)};
        const auto optimizer = distributed_sgd(params, {.process_set = all});
        sum(params[0]).backward();
        EXPECT_TRUE(params[0].grad().defined());  // waits for its group
        sum(params[1]).backward();
        EXPECT_TRUE(grad_lock(params[0]));
        sum(params[2]).backward();
        EXPECT_TRUE(grad_lock(params[2]));
        optimizer->step();
        for (const Tensor& param : params) EXPECT_EQ(param.to_vector()[0], -1);
      },
      setup);
}

TEST(DistributedOptimizer, OfASetLeavesRanksOutsideOnTheirOwn) {
  run_worlds(3, [](const std::shared_ptr<World>& world) {
    const ProcessSet pair = world->add_process_set({0, 2});
    Tensor weight = weight_of(0);
    const auto optimizer = distributed_sgd({weight}, {.process_set = pair});
    const Rank rank = world->topology().rank;
    sum(weight * static_cast<double>(rank + 1)).backward();
    optimizer->step();
    EXPECT_EQ(weight.to_vector()[0], -2);                   // (1 + 3) / 2; alone 2
    barrier({.process_set = world->global_process_set()});  // nobody leaves before
  });
}

TEST(DistributedOptimizer, OfTwoOptimizersReducesTheGradientsOfBoth) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor one = weight_of(0);
    Tensor two = weight_of(0);
    const auto make = [&](const Tensor& param, const char* name) {
      return DistributedOptimizer(
          std::make_shared<optim::SGD>(std::vector<Tensor>{param}, optim::SGDOptions{.lr = 1}),
          {{name, param}}, {.process_set = all});
    };
    auto first = make(one, "generator.weight");
    auto second = make(two, "discriminator.weight");
    sum(one * 2.0 + two * static_cast<double>(all.rank())).backward();
    second.step();
    first.step();
    EXPECT_EQ(one.to_vector()[0], -2);
    EXPECT_EQ(two.to_vector()[0], -0.5);
  });
}

// Adasum of equal vectors is the vector, of orthogonal ones their sum.
TEST(DistributedOptimizer, WithAdasumCombinesWhatTheOptimizerChanged) {
  for (const int size : {1, 2, 3, 4}) {
    run_sets(size, [size](const ProcessSet& all) {
      Tensor equal = Tensor::zeros({2});
      Tensor apart = Tensor::zeros({4});
      equal.requires_grad_();
      apart.requires_grad_();
      const auto optimizer =
          distributed_sgd({equal, apart}, {.op = ReduceOp::kAdasum, .process_set = all});
      Tensor mine = Tensor::zeros({4});
      mine.data<float>()[all.rank()] = 3;
      (sum(equal * 2.0) + sum(apart * mine)).backward();
      optimizer->synchronize();
      optimizer->step();
      EXPECT_NEAR(equal.to_vector()[0], -2, 1e-5);
      for (int i = 0; i < 4; ++i) {
        EXPECT_NEAR(apart.to_vector()[static_cast<std::size_t>(i)], i < size ? -3 : 0, 1e-5);
      }
      EXPECT_THROW(static_cast<void>(optimizer->skip_synchronize()), InvalidArgumentError);
    });
  }
}

}  // namespace
}  // namespace hvd
