// Gradients in memory that the ranks share, and updates as they are reduced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kNumels[] = {5, 1, 33, 16, 200};

std::vector<Tensor> make_params() {
  std::vector<Tensor> params;
  for (const std::int64_t numel : kNumels) {
    Tensor param = Tensor::empty({numel});
    for (std::int64_t i = 0; i < numel; ++i) {
      param.data<float>()[i] = static_cast<float>(i * 7 % 13) / 3 - 1.7f;
    }
    params.push_back(param.requires_grad_());
  }
  return params;
}

// A loss whose gradients round and differ by rank and step; with `gaps` it leaves one parameter out
// now and then.
void backward(const std::vector<Tensor>& params, int rank, int step, bool gaps = false) {
  Tensor loss = Tensor::scalar(0);
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (gaps && (static_cast<int>(i) + rank + step) % 6 == 5) continue;
    const double factor = 0.1 + 0.37 * rank + 0.011 * step * static_cast<double>(i);
    loss = loss + sum(params[i] * params[i] * factor);
  }
  loss.backward();
}

using MakeOptimizer = std::function<std::shared_ptr<optim::Optimizer>(const std::vector<Tensor>&)>;

std::shared_ptr<optim::Optimizer> momentum_sgd(const std::vector<Tensor>& params) {
  return std::make_shared<optim::SGD>(params, optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
}

std::shared_ptr<optim::Optimizer> adam(const std::vector<Tensor>& params) {
  return std::make_shared<optim::Adam>(params, optim::AdamOptions{.lr = 0.01});
}

std::vector<Tensor> train(const ProcessSet& set, DistributedOptions options,
                          const MakeOptimizer& make, int passes = 1) {
  options.process_set = set;
  std::vector<Tensor> params = make_params();
  DistributedOptimizer optimizer(make(params), {}, options);
  // All ranks must make as many windows.
  const bool gaps = passes <= options.backward_passes_per_step;
  for (int step = 0; step < 6; ++step) {
    optimizer.zero_grad(step % 2 == 0);
    for (int pass = 0; pass < passes; ++pass) backward(params, set.rank(), step + pass, gaps);
    optimizer.step();
  }
  return params;
}

void expect_same_bits(const ProcessSet& set, const DistributedOptions& a,
                      const DistributedOptions& b, const MakeOptimizer& make, int passes = 1) {
  const std::vector<Tensor> first = train(set, a, make, passes);
  const std::vector<Tensor> second = train(set, b, make, passes);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(first[i], second[i])) << "parameter " << i;
  }
}

DistributedOptions packed(DistributedOptions options = {}) {
  options.gradient_as_bucket_view = false;
  return options;
}

const std::byte* address(const Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.data());
}

TEST(GradientViews, LieOneAfterTheOtherInReverseOrderFromTheSecondStepOn) {
  run_sets(2, [](const ProcessSet& all) {
    std::vector<Tensor> params = make_params();
    DistributedOptimizer optimizer(momentum_sgd(params), {}, {.process_set = all});
    backward(params, 0, 0);
    optimizer.step();
    optimizer.zero_grad();
    std::vector<const std::byte*> places;
    for (int step = 0; step < 4; ++step) {
      backward(params, 0, 0);
      optimizer.step();
      places.push_back(address(params[4].grad()));
      for (std::size_t i = params.size(); i-- > 1;) {
        const std::size_t room = (params[i].grad().lease().view.bytes() + 63) / 64 * 64;
        EXPECT_EQ(address(params[i - 1].grad()), address(params[i].grad()) + room);
      }
      optimizer.zero_grad(step % 2 == 0);
      EXPECT_EQ(params[0].grad().defined(), step % 2 == 1);
      if (step % 2 == 1) {
        EXPECT_EQ(params[0].grad().to_vector(), std::vector<double>(5, 0));
      }
    }
    EXPECT_EQ(places, std::vector<const std::byte*>(4, places[0]));
  });
}

TEST(GradientViews, ChangeNoBit) {
  run_sets(3, [](const ProcessSet& all) {
    for (const MakeOptimizer& make : {MakeOptimizer(momentum_sgd), MakeOptimizer(adam)}) {
      expect_same_bits(all, {}, packed(), make);
    }
    expect_same_bits(all, {.backward_passes_per_step = 2}, packed({.backward_passes_per_step = 2}),
                     momentum_sgd, 2);
    // Two windows in one step: while the first is reduced its memory is not written.
    expect_same_bits(all, {}, packed(), momentum_sgd, 2);
    expect_same_bits(all, {.num_groups = 2}, packed({.num_groups = 2}), momentum_sgd);
    const ClipGradNorm clip{.max_norm = 0.5};
    expect_same_bits(all, {.clip_grad_norm = clip}, packed({.clip_grad_norm = clip}), momentum_sgd);
  });
}

TEST(GradientViews, ChangeNoBitInAProcessSet) {
  run_worlds(3, [](const std::shared_ptr<World>& world) {
    const ProcessSet pair = world->add_process_set({0, 2});
    if (pair.included()) expect_same_bits(pair, {}, packed(), momentum_sgd);
    allreduce(Tensor::scalar(1),
              {.name = "all are through", .process_set = world->global_process_set()});
  });
}

TEST(GradientViews, AGradientOfTheProgramsOwnIsReducedThereToo) {
  run_sets(2, [](const ProcessSet& all) {
    std::vector<Tensor> params = make_params();
    DistributedOptimizer optimizer(momentum_sgd(params), {},
                                   {.op = ReduceOp::kSum, .process_set = all});
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      backward(params, 0, 0);
      optimizer.step();
    }
    const std::byte* const place = address(params[0].grad());
    optimizer.zero_grad();
    if (all.rank() == 0) params[0].set_grad(Tensor::full({5}, 3));
    optimizer.synchronize();
    EXPECT_EQ(address(params[0].grad()), place);
    EXPECT_THAT(params[0].grad().to_vector(), ElementsAre(3, 3, 3, 3, 3));
  });
}

TEST(GradientViews, AJoinedRankIsDoneWithout) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    const ProcessSet all = world->global_process_set();
    std::vector<Tensor> params = make_params();
    DistributedOptimizer optimizer(momentum_sgd(params), {}, {.process_set = all});
    for (int step = 0; step < (all.rank() == 0 ? 5 : 2); ++step) {
      backward(params, 0, 0);
      optimizer.step();
    }
    join({.process_set = all});
  });
}

TEST(GradientViews, MemoryGoesWithTheOptimizerAndItsGradients) {
  run_sets(2, [](const ProcessSet& all) {
    std::vector<Tensor> params = make_params();
    std::weak_ptr<const void> memories[3];
    for (auto& memory : memories) {
      DistributedOptimizer optimizer(momentum_sgd(params), {}, {.process_set = all});
      for (int step = 0; step < 2; ++step) {
        optimizer.zero_grad();
        backward(params, all.rank(), 0);
        optimizer.step();
      }
      EXPECT_TRUE(grad_memory(params[0]).is(params[0].grad()));
      memory = params[0].grad().lease().owner;
      optimizer.zero_grad();
    }
    allreduce(Tensor::scalar(1), {.name = "all are through", .process_set = all});
    for (const auto& memory : memories) EXPECT_TRUE(memory.expired());
    EXPECT_FALSE(grad_memory(params[0]).defined());
  });
}

TEST(GradientViews, SeveralOptimizersHaveTheirOwn) {
  run_sets(2, [](const ProcessSet& all) {
    const std::vector<Tensor> params[] = {make_params(), make_params()};
    std::vector<std::unique_ptr<DistributedOptimizer>> optimizers;
    for (const int i : {0, 1}) {
      NamedTensors named;
      for (const Tensor& param : params[i]) {
        named.emplace_back(std::to_string(i) + "." + std::to_string(named.size()), param);
      }
      optimizers.push_back(std::make_unique<DistributedOptimizer>(
          momentum_sgd(params[i]), named, DistributedOptions{.process_set = all}));
    }
    for (int step = 0; step < 3; ++step) {
      for (const int i : {0, 1}) backward(params[i], all.rank(), step);
      for (const int i : {1, 0}) optimizers[static_cast<std::size_t>(i)]->step();
    }
    for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(bitwise_equal(params[0][i], params[1][i]));
    EXPECT_TRUE(grad_memory(params[0][0]).defined());
  });
}

TEST(GradientViews, WhatIsEncodedLiesAnywhere) {
  run_sets(2, [](const ProcessSet& all) {
    std::vector<Tensor> params = make_params();
    DistributedOptimizer optimizer(momentum_sgd(params), {},
                                   {.compression = Compression::fp16(), .process_set = all});
    backward(params, 0, 0);
    optimizer.step();
    EXPECT_FALSE(grad_memory(params[0]).defined());
  });
}

TEST(OverlapStep, ChangesNoBit) {
  run_sets(2, [](const ProcessSet& all) {
    for (const MakeOptimizer& make : {MakeOptimizer(momentum_sgd), MakeOptimizer(adam)}) {
      expect_same_bits(all, {.overlap_step = true}, {}, make);
      expect_same_bits(all, packed({.overlap_step = true}), {}, make, 2);
    }
    expect_same_bits(all, {.num_groups = 2, .overlap_step = true}, {.num_groups = 2}, momentum_sgd);
    expect_same_bits(all, {.compression = Compression::powersgd(1), .overlap_step = true},
                     {.compression = Compression::powersgd(1)}, momentum_sgd);
  });
  run_sets(1, [](const ProcessSet& alone) {
    expect_same_bits(alone, {.overlap_step = true}, {}, momentum_sgd);
  });
}

// Counts the parameters that it has updated.
class CountingSgd final : public optim::SGD {
 public:
  CountingSgd(const std::vector<Tensor>& params, std::atomic<int>& updated)
      : optim::SGD(params, {.lr = 1}), updated_(updated) {}

 protected:
  void update(Tensor& param, const Tensor& grad, optim::ParamState& state,
              const optim::Options& options) override {
    optim::SGD::update(param, grad, state, options);
    ++updated_;
  }

 private:
  std::atomic<int>& updated_;
};

// The first parameter, whose reduction ends after that of the second, has another shape on rank 1.
TEST(OverlapStep, UpdatesWhatIsReducedBeforeItKnowsOfTheRest) {
  std::atomic<int> updated[2] = {0, 0};
  WorldsSetup setup;
  setup.world.bucket_bytes = 1;  // each on its own
  const auto run = [&](const ProcessSet& all) {
    const Shape shape = all.rank() == 0 ? Shape{3} : Shape{2, 2};
    std::vector<Tensor> params = {Tensor::zeros(shape).requires_grad_(),
                                  Tensor::zeros({3}).requires_grad_()};
    Tensor gradient;
    params[1].register_hook([&](const Tensor& leaf) { gradient = leaf.grad(); });
    DistributedOptimizer optimizer(
        std::make_shared<CountingSgd>(params, updated[all.rank()]), {},
        {.gradient_as_bucket_view = false, .overlap_step = true, .process_set = all});
    sum(params[1] * static_cast<double>(1 + 2 * all.rank())).backward();
    const TimePoint deadline = Clock::now() + std::chrono::seconds(20);
    while (gradient.to_vector()[2] != 2 && Clock::now() < deadline) std::this_thread::yield();
    sum(params[0]).backward();
    EXPECT_THROW(optimizer.step(), MismatchError);
    EXPECT_EQ(updated[all.rank()], 1);
    EXPECT_THAT(params[1].to_vector(), ElementsAre(-2, -2, -2));
  };
  run_sets(2, run, setup);
}

TEST(OverlapStep, StepsOnceAfterAnExplicitSynchronize) {
  run_sets(2, [](const ProcessSet& all) {
    std::vector<Tensor> params = {Tensor::zeros({3}).requires_grad_()};
    DistributedOptimizer optimizer(
        std::make_shared<optim::SGD>(params, optim::SGDOptions{.lr = 1}), {},
        {.op = ReduceOp::kSum, .overlap_step = true, .process_set = all});
    sum(params[0]).backward();
    optimizer.synchronize();
    params[0].grad().mul_(0.25);
    optimizer.step();
    EXPECT_THAT(params[0].to_vector(), ElementsAre(-0.5, -0.5, -0.5));
  });
}

TEST(OverlapStep, IsRefusedWhereAllGradientsAreNeededFirst) {
  run_sets(2, [](const ProcessSet& all) {
    const auto complaint = [&](DistributedOptions options) {
      options.process_set = all;
      options.overlap_step = true;
      return message_of<InvalidArgumentError>(
          [&] { DistributedOptimizer(momentum_sgd(make_params()), {}, options); });
    };
    EXPECT_THAT(complaint({.clip_grad_norm = ClipGradNorm{}}), HasSubstr("clip_grad_norm"));
    EXPECT_THAT(complaint({.op = ReduceOp::kAdasum}), HasSubstr("Adasum"));
  });
}

}  // namespace
}  // namespace hvd
