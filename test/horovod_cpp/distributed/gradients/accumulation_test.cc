// Several backward passes a step, and clipping: DistributedOptimizer against the same arithmetic
// without any ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/distributed/session/session.h"
#include "horovod_cpp/optim/clip_grad_norm.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using ::testing::HasSubstr;

// One parameter of two elements under SGD with a learning rate of 1.
struct Trainee {
  explicit Trainee(const ProcessSet& set, DistributedOptions options = {}) : all(set) {
    weight.requires_grad_();
    options.process_set = set;
    optimizer = std::make_unique<DistributedOptimizer>(
        std::make_shared<optim::SGD>(std::vector<Tensor>{weight}, optim::SGDOptions{.lr = 1}),
        NamedTensors{{"weight", weight}}, options);
  }
  // A pass whose gradient is `gradient` times this rank's number plus one.
  void pass(double gradient) {
    sum(weight * (gradient * static_cast<double>(all.rank() + 1))).backward();
  }
  double step() {
    optimizer->step();
    optimizer->zero_grad();
    return weight.to_vector()[1];
  }
  // The average over the ranks of what pass(1) gives.
  double unit() const { return (all.size() + 1) / 2.0; }

  ProcessSet all;
  Tensor weight = Tensor::zeros({2});
  std::unique_ptr<DistributedOptimizer> optimizer;
};

void at_all_sizes(const std::function<void(const ProcessSet&)>& body) {
  for (const int size : {1, 2, 3, 4}) run_sets(size, body);
}

TEST(Accumulation, AStepClosesAWindowThatIsNotFull) {
  at_all_sizes([](const ProcessSet& all) {
    Trainee trainee(all, {.backward_passes_per_step = 3});
    for (const double gradient : {1, 2}) trainee.pass(gradient);
    EXPECT_EQ(trainee.step(), -3 * trainee.unit());
    for (const double gradient : {1, 1, 1}) trainee.pass(gradient);  // the next one is whole again
    EXPECT_EQ(trainee.step(), -6 * trainee.unit());
  });
}

TEST(Accumulation, AveragesOverTheRealNumberOfPasses) {
  at_all_sizes([](const ProcessSet& all) {
    Trainee trainee(all, {.backward_passes_per_step = 4, .average_aggregated_gradients = true});
    for (const double gradient : {1, 2, 3, 6}) trainee.pass(gradient);
    EXPECT_EQ(trainee.step(), -3 * trainee.unit());
    for (const double gradient : {1, 3}) trainee.pass(gradient);
    EXPECT_EQ(trainee.step(), -5 * trainee.unit());
  });
}

TEST(Accumulation, RanksMayCloseAWindowAfterDifferentNumbersOfPasses) {
  run_sets(2, [](const ProcessSet& all) {
    Trainee trainee(all, {.backward_passes_per_step = 4, .average_aggregated_gradients = true});
    for (int pass = 0; pass <= all.rank(); ++pass) trainee.pass(2);
    EXPECT_EQ(trainee.step(), -3);  // (mean of {2} + mean of {4, 4}) / 2
    if (all.rank() == 1) trainee.pass(2);
    EXPECT_EQ(trainee.step(), -5);  // (0 + 4) / 2
  });
}

TEST(Accumulation, APassTooManyIsAdded) {
  at_all_sizes([](const ProcessSet& all) {
    Trainee trainee(all);
    for (const double gradient : {1, 2, 4}) trainee.pass(gradient);
    EXPECT_EQ(trainee.step(), -7 * trainee.unit());
    Trainee pairs(all, {.op = ReduceOp::kSum, .backward_passes_per_step = 2});
    for (const double gradient : {1, 2, 4}) pairs.pass(gradient);
    EXPECT_EQ(pairs.step(), -7 * pairs.unit() * all.size());
  });
}

TEST(Accumulation, InsideNoSyncPassesStayOnThisRank) {
  at_all_sizes([](const ProcessSet& all) {
    Trainee trainee(all);
    {
      const auto guard = trainee.optimizer->no_sync();
      trainee.pass(1);
      {
        const auto inner = trainee.optimizer->no_sync();
        trainee.pass(2);
      }
      trainee.pass(4);
      EXPECT_EQ(trainee.weight.grad().to_vector()[0], 7.0 * (all.rank() + 1));
    }
    trainee.pass(8);
    EXPECT_EQ(grad_lock(trainee.weight) == nullptr, all.size() == 1);  // on its way
    EXPECT_EQ(trainee.step(), -15 * trainee.unit());
  });
}

TEST(Accumulation, AStepAfterNoSyncReducesWhatIsThere) {
  at_all_sizes([](const ProcessSet& all) {
    Trainee trainee(all);
    {
      const auto guard = trainee.optimizer->no_sync();
      trainee.pass(1);
      trainee.pass(2);
    }
    EXPECT_EQ(trainee.step(), -3 * trainee.unit());
  });
}

TEST(Accumulation, ZeroGradDropsWhatWasAccumulated) {
  run_sets(2, [](const ProcessSet& all) {
    Trainee trainee(all, {.backward_passes_per_step = 2});
    trainee.pass(8);
    trainee.optimizer->zero_grad();
    trainee.pass(1);
    EXPECT_TRUE(trainee.weight.grad().defined());  // the first pass of a new window
    trainee.pass(2);
    EXPECT_EQ(trainee.step(), -3 * trainee.unit());
  });
}

TEST(Accumulation, TheWindowMayBeChanged) {
  run_sets(2, [](const ProcessSet& all) {
    Trainee trainee(all);
    trainee.optimizer->set_backward_passes_per_step(2);
    EXPECT_EQ(trainee.optimizer->backward_passes_per_step(), 2);
    trainee.pass(1);
    EXPECT_TRUE(trainee.weight.grad().defined());
    trainee.pass(1);
    EXPECT_EQ(trainee.step(), -2 * trainee.unit());
    EXPECT_THROW(trainee.optimizer->set_backward_passes_per_step(0), InvalidArgumentError);
  });
}

TEST(Accumulation, TheWindowMayBeChangedFromTheNextStepOn) {
  run_sets(2, [](const ProcessSet& all) {
    Trainee trainee(all, {.backward_passes_per_step = 3, .average_aggregated_gradients = true});
    for (const double gradient : {1.0, 2.0, 3.0}) {
      trainee.pass(gradient);
      trainee.optimizer->set_backward_passes_per_step(1);
    }
    EXPECT_EQ(trainee.step(), -2 * trainee.unit());
    for (const double gradient : {1.0, 2.0}) trainee.pass(gradient);
    EXPECT_EQ(trainee.step(), -5 * trainee.unit());
  });
}

// The norm of two equal elements g is g * sqrt(2).
double clipped(double gradient, double max_norm) {
  const double norm = std::abs(gradient) * std::sqrt(2.0);
  return gradient * std::min(1.0, max_norm / (norm + 1e-6));
}

TEST(Clipping, AfterTheReductionClipsTheReducedGradients) {
  at_all_sizes([](const ProcessSet& all) {
    Trainee trainee(all, {.clip_grad_norm = ClipGradNorm{.max_norm = 2}});
    trainee.pass(4);
    EXPECT_NEAR(trainee.step(), -clipped(4 * trainee.unit(), 2), 1e-6);
  });
}

TEST(Clipping, BeforeTheReductionClipsEachRanksOwn) {
  at_all_sizes([](const ProcessSet& all) {
    Trainee trainee(all, {.clip_grad_norm = ClipGradNorm{
                              .max_norm = 2, .when = ClipGradNorm::When::kBeforeReduction}});
    trainee.pass(1);
    double expected = 0;
    for (int rank = 0; rank < all.size(); ++rank) expected += clipped(rank + 1, 2) / all.size();
    EXPECT_NEAR(trainee.step(), -expected, 1e-6);
  });
}

TEST(Clipping, BeforeTheReductionClipsTheMeanOfThePasses) {
  run_sets(2, [](const ProcessSet& all) {
    Trainee trainee(all, {.backward_passes_per_step = 2,
                          .average_aggregated_gradients = true,
                          .clip_grad_norm = ClipGradNorm{
                              .max_norm = 2, .when = ClipGradNorm::When::kBeforeReduction}});
    trainee.pass(1);
    trainee.pass(1);
    EXPECT_NEAR(trainee.step(), -(clipped(1, 2) + clipped(2, 2)) / 2, 1e-6);
  });
}

TEST(Clipping, BeforeTheReductionClipsWhatTheProgramPutThereToo) {
  run_sets(2, [](const ProcessSet& all) {
    Trainee trainee(all, {.clip_grad_norm = ClipGradNorm{
                              .max_norm = 1, .when = ClipGradNorm::When::kBeforeReduction}});
    trainee.pass(3);
    const double before = trainee.step();
    trainee.weight.set_grad(Tensor::full({2}, 30));  // without a backward()
    EXPECT_NEAR(before - trainee.step(), std::sqrt(0.5), 1e-5);
  });
}

TEST(Clipping, HappensOnceWhenSynchronizeWasCalledBefore) {
  run_sets(2, [](const ProcessSet& all) {
    Trainee trainee(all, {.clip_grad_norm = ClipGradNorm{.max_norm = 2}});
    trainee.pass(4);
    trainee.optimizer->synchronize();
    trainee.weight.grad().mul_(8);  // the user's own change stays
    EXPECT_NEAR(trainee.step(), -8 * clipped(6, 2), 1e-5);
  });
}

TEST(ClipGradNorm, GivesTheNormOfAllGradientsAndLeavesSmallOnesAlone) {
  Tensor a = Tensor::zeros({2});
  Tensor b = Tensor::zeros({1}, DType::kF64);
  const Tensor none = Tensor::zeros({3});
  a.set_grad(Tensor::full({2}, 2));
  b.set_grad(Tensor::full({1}, 1, DType::kF64));
  EXPECT_EQ(optim::clip_grad_norm_({a, b, none}, 4), 3);
  EXPECT_EQ(a.grad().to_vector()[0], 2);
  EXPECT_EQ(optim::clip_grad_norm_({a, b, none}, 1.5), 3);
  EXPECT_NEAR(a.grad().to_vector()[0], 1, 1e-6);
  EXPECT_NEAR(b.grad().item(), 0.5, 1e-6);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { optim::clip_grad_norm_({a}, 0); }),
              HasSubstr("max_norm"));
}

}  // namespace
}  // namespace hvd
