// Ranks whose programs differ: other parameters, other numbers of passes, frozen ones, several
// optimizers. What they train must be what one process would that adds up all ranks' gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/distributed_data_parallel.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/optim/clip_grad_norm.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/horovod_cpp/distributed/warnings.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using ::testing::HasSubstr;

// Two parameters, a and b, under SGD with a learning rate of 1. Those who do not agree give up
// within seconds.
struct Pair {
  explicit Pair(const ProcessSet& set, DistributedOptions options = {}) {
    options.process_set = set;
    optimizer =
        std::make_unique<DistributedOptimizer>(inner, NamedTensors{{"a", a}, {"b", b}}, options);
  }
  void step() {
    optimizer->step();
    optimizer->zero_grad();
  }
  std::pair<double, double> values() const { return {a.item(), b.item()}; }

  Tensor a = Tensor::zeros({1}).requires_grad_();
  Tensor b = Tensor::zeros({1}).requires_grad_();
  std::shared_ptr<optim::SGD> inner =
      std::make_shared<optim::SGD>(std::vector<Tensor>{a, b}, optim::SGDOptions{.lr = 1});
  std::unique_ptr<DistributedOptimizer> optimizer;
};

using Values = std::pair<double, double>;

// In buckets of their own, in one, and where gradients have memory of their own.
void with_all_buckets(
    const std::function<void(const ProcessSet&, const DistributedOptions&)>& body) {
  WorldsSetup setup;
  setup.config.stall_limit = std::chrono::seconds(20);
  for (const DistributedOptions& options :
       {DistributedOptions{}, DistributedOptions{.num_groups = 1},
        DistributedOptions{.gradient_as_bucket_view = false}}) {
    run_sets(
        2, [&](const ProcessSet& all) { body(all, options); }, setup);
  }
}

TEST(UnlikePasses, AfterNoSyncRanksMayUseDifferentParameters) {
  with_all_buckets([](const ProcessSet& all, const DistributedOptions& options) {
    Pair pair(all, options);
    for (int step = 1; step <= 3; ++step) {
      {
        const auto guard = pair.optimizer->no_sync();
        sum(pair.a * 2.0 + pair.b * 3.0).backward();
      }
      (all.rank() == 0 ? sum(pair.a * 2.0 + pair.b * 3.0) : sum(pair.a * 2.0)).backward();
      pair.step();
      EXPECT_EQ(pair.values(), Values(-4 * step, -4.5 * step));
    }
  });
}

TEST(UnlikePasses, RanksMayUseTheParametersOfOneOfTwoOptimizersAlone) {
  with_all_buckets([](const ProcessSet& all, const DistributedOptions& options) {
    Pair first(all, options), second(all, options);
    for (int step = 1; step <= 3; ++step) {
      (all.rank() == 0 ? sum(first.a * 2.0 + second.b * 3.0) : sum(first.a * 2.0)).backward();
      first.step();
      second.step();
    }
    EXPECT_EQ(first.values(), Values(-6, 0));
    EXPECT_EQ(second.values(), Values(0, -4.5));
  });
}

TEST(UnlikePasses, RanksMayMakeDifferentNumbersOfThem) {
  with_all_buckets([](const ProcessSet& all, const DistributedOptions& options) {
    Pair pair(all, options);
    for (int step = 1; step <= 3; ++step) {
      for (int pass = 0; pass < 3 * all.rank(); ++pass) sum(pair.a + pair.b * 2.0).backward();
      pair.step();
      EXPECT_EQ(pair.values(), Values(-1.5 * step, -3 * step));
    }
  });
}

TEST(UnlikePasses, AreAveragedByWindowsWhateverElseIsInTheBucket) {
  with_all_buckets([](const ProcessSet& all, DistributedOptions options) {
    options.average_aggregated_gradients = true;
    Pair single(all, options);
    for (int pass = 0; pass < 2; ++pass) sum(single.a * 2.0).backward();
    single.step();
    EXPECT_EQ(single.values(), Values(-4, 0));  // two windows of one pass
    options.backward_passes_per_step = 2;
    Pair pairs(all, options);
    {
      const auto guard = pairs.optimizer->no_sync();
      sum(pairs.a * 2.0 + pairs.b * 3.0).backward();
    }
    sum(pairs.a * 2.0 + pairs.b * 3.0).backward();
    pairs.step();
    EXPECT_EQ(pairs.values(), Values(-2, -3));
    for (const double factor : {1, 3, 8}) sum(pairs.a * factor).backward();
    pairs.step();
    EXPECT_EQ(pairs.values(), Values(-2 - (2 + 8), -3));
  });
}

TEST(UnlikePasses, AreClippedBeforeTheirReductionAlsoAfterSynchronize) {
  with_all_buckets([](const ProcessSet& all, DistributedOptions options) {
    options.clip_grad_norm = {1, ClipGradNorm::When::kBeforeReduction};
    Pair pair(all, options);
    sum(pair.a * 0.6 + pair.b * 0.8).backward();
    pair.optimizer->synchronize();
    if (all.rank() == 1) sum(pair.b * 50.0).backward();
    pair.step();
    EXPECT_NEAR(pair.values().first, -0.6, 1e-5);
    EXPECT_NEAR(pair.values().second, -0.8 - 0.5, 1e-5);
  });
}

TEST(UnlikePasses, AParameterThatIsFrozenBeforeStepKeepsTheRanksEqual) {
  with_all_buckets([](const ProcessSet& all, const DistributedOptions& options) {
    Pair pair(all, options);
    for (int step = 1; step <= 2; ++step) {
      if (all.rank() == 0) sum(pair.a * 3.0).backward();
      pair.a.requires_grad_(false);
      pair.step();
      EXPECT_EQ(pair.values(), Values(-1.5 * step, 0));
      pair.step();  // frozen: nothing
      EXPECT_EQ(pair.values(), Values(-1.5 * step, 0));
      pair.a.requires_grad_(true);
    }
  });
}

TEST(UnlikePasses, AParameterThatThawsIsReduced) {
  with_all_buckets([](const ProcessSet& all, DistributedOptions options) {
    Tensor a = Tensor::zeros({1});
    Tensor b = Tensor::zeros({1}).requires_grad_();
    options.process_set = all;
    DistributedOptimizer optimizer(
        std::make_shared<optim::SGD>(std::vector<Tensor>{a, b}, optim::SGDOptions{.lr = 1}), {},
        options);
    const double own = all.rank() + 1;
    for (int step = 1; step <= 3; ++step) {
      (step == 1 ? sum(b * own) : sum((a + b) * own)).backward();
      optimizer.step();
      optimizer.zero_grad();
      a.requires_grad_(true);
    }
    EXPECT_EQ(a.item(), -3);
    EXPECT_EQ(b.item(), -4.5);
  });
}

TEST(UnlikePasses, OneThatFollowsSynchronizeOnOneRankIsReduced) {
  with_all_buckets([](const ProcessSet& all, const DistributedOptions& options) {
    for (const bool drops : {false, true}) {
      Pair pair(all, options);
      sum(pair.a * 2.0).backward();
      pair.optimizer->synchronize();
      if (drops) pair.optimizer->zero_grad();
      if (all.rank() == 0) sum(pair.a * 4.0 + pair.b).backward();
      pair.step();
      EXPECT_EQ(pair.values(), Values(drops ? -2 : -4, -0.5));
    }
    DistributedOptions sums = options;
    sums.op = ReduceOp::kSum;
    Pair pair(all, sums);
    for (int pass = 0; pass < 2; ++pass) {
      sum(pair.a * 2.0).backward();
      pair.optimizer->synchronize();
    }
    EXPECT_EQ(pair.a.grad().item(), 8);
  });
}

TEST(UnlikePasses, AStepThatDoesNotSynchronizeRefusesGradientsThatCameAfterIt) {
  with_all_buckets([](const ProcessSet& all, const DistributedOptions& options) {
    Pair pair(all, options);
    sum(pair.a).backward();
    pair.optimizer->synchronize();
    sum(pair.a).backward();
    {
      const auto guard = pair.optimizer->skip_synchronize();
      EXPECT_THAT(message_of<InvalidArgumentError>([&] { pair.optimizer->step(); }),
                  HasSubstr("what backward() has added to the gradient of 'a' is not reduced"));
    }
    pair.step();
    EXPECT_EQ(pair.values(), Values(-2, 0));
  });
}

TEST(UnlikePasses, AStepThatDoesNotSynchronizeRefusesPassesOfThisRankAlone) {
  with_all_buckets([](const ProcessSet& all, DistributedOptions options) {
    for (const int passes : {1, 2}) {
      options.backward_passes_per_step = passes;
      Pair pair(all, options);
      const auto pass = [&] { sum(pair.b * (all.rank() + 1.0)).backward(); };
      if (passes == 1) {
        const auto held = pair.optimizer->no_sync();
        pass();
      } else {
        pass();
      }
      {
        const auto guard = pair.optimizer->skip_synchronize();
        EXPECT_THAT(message_of<InvalidArgumentError>([&] { pair.optimizer->step(); }),
                    HasSubstr("what backward() has added to the gradient of 'b' is not reduced"));
      }
      pair.step();
      EXPECT_EQ(pair.values(), Values(0, -1.5));
    }
  });
}

TEST(UnlikePasses, AGradientInFlightCanNeitherBeReadNorSetNorClippedNorStepped) {
  with_all_buckets([](const ProcessSet& all, const DistributedOptions& options) {
    Pair pair(all, options);
    for (int step = 1; step <= 2; ++step) {
      sum(pair.a + pair.b).backward();
      const std::vector<std::function<void()>> touches = {
          [&] { pair.a.set_grad(Tensor::ones({1})); },
          [&] { static_cast<void>(pair.a.grad()); },
          [&] {
            optim::clip_grad_norm_({pair.a, pair.b}, 1);
          },
          [&] { pair.inner->step(); },
          [&] { pair.inner->zero_grad(); },
      };
      for (const auto& touch : touches) {
        EXPECT_THAT(message_of<InvalidArgumentError>(touch),
                    HasSubstr("the gradient of 'a' is being reduced"));
      }
      pair.step();
      EXPECT_EQ(pair.values(), Values(-step, -step));
    }
  });
}

TEST(UnlikePasses, OfTwoOptimizersOfAParameterTheNewerReducesAndTheOlderSaysSo) {
  with_all_buckets([](const ProcessSet& all, DistributedOptions options) {
    Pair older(all, options);
    options.process_set = all;
    auto newer = std::make_unique<DistributedOptimizer>(
        std::make_shared<optim::SGD>(std::vector<Tensor>{older.a, older.b},
                                     optim::SGDOptions{.lr = 1}),
        NamedTensors{{"a", older.a}, {"b", older.b}}, options);
    for (int step = 1; step <= 3; ++step) {
      sum(older.a * (all.rank() + 1.0)).backward();
      newer->step();
      newer->zero_grad();
      EXPECT_EQ(older.values(), Values(-1.5 * step, 0));
    }
    EXPECT_THAT(
        message_of<InvalidArgumentError>([&] { older.optimizer->step(); }),
        HasSubstr("DistributedOptimizer was replaced: DistributedOptimizer (optimizer 2) was "
                  "made later, and reduces the gradient of 'a' now"));
    older.optimizer->zero_grad();
    {
      const auto guard = newer->no_sync();
      sum(older.a * (all.rank() + 1.0)).backward();
    }
    older.step();
    EXPECT_EQ(older.values(), Values(-6, 0));
    newer.reset();
    sum(older.a * (all.rank() + 1.0)).backward();
    older.step();
    EXPECT_EQ(older.values(), Values(-7.5, 0));
  });
}

TEST(UnlikePasses, GroupsMayHaveAFrozenParameterAndCanBeAddedLater) {
  with_all_buckets([](const ProcessSet& all, DistributedOptions options) {
    Tensor frozen = Tensor::zeros({1});
    Tensor a = Tensor::zeros({1}).requires_grad_();
    Tensor later = Tensor::zeros({1}).requires_grad_();
    options.process_set = all;
    options.num_groups = 0;
    options.groups = {{frozen, a}};
    DistributedOptimizer optimizer(
        std::make_shared<optim::SGD>(std::vector<Tensor>{frozen, a}, optim::SGDOptions{.lr = 1}),
        {}, options);
    for (int step = 0; step < 3; ++step) {
      sum((step == 0 ? a : a + later) * (all.rank() + 1.0)).backward();
      optimizer.step();
      optimizer.zero_grad();
      if (step == 0) optimizer.add_param_group({.params = {later}, .options = {}});
    }
    EXPECT_EQ(a.item(), -4.5);
    EXPECT_EQ(later.item(), -3);
    EXPECT_EQ(frozen.item(), 0);
  });
}

class Linear final : public nn::Module {
 public:
  Tensor weight = register_parameter("weight", Tensor::zeros({1}));
  Tensor other = register_parameter("other", Tensor::zeros({1}));
  Tensor forward(const Tensor& input) override { return sum(weight * input) + sum(other * input); }
};

TEST(UnlikePasses, APassThatThrewLeavesNothingBehindInDistributedDataParallel) {
  for (const double bucket : {0.0, 1.0}) {
    run_sets(2, [&](const ProcessSet& all) {
      const auto model = std::make_shared<Linear>();
      DistributedDataParallel ddp(model, {.bucket_cap_mb = bucket, .process_set = all});
      for (int pass = 0; pass < 3; ++pass) {
        const auto failing = model->weight.register_hook(
            [](const Tensor&) { throw std::runtime_error("in the middle of a pass"); });
        EXPECT_THROW(ddp(Tensor::full({1}, 5)).backward(), std::runtime_error);
        failing();
        model->zero_grad();
        ddp(Tensor::full({1}, 1)).backward();
        EXPECT_EQ(model->weight.grad().item(), 1);
        EXPECT_EQ(model->other.grad().item(), 1);
        model->zero_grad();
      }
    });
  }
}

void train_with_rates(const std::vector<double>& rates, const std::string& check) {
  WorldsSetup setup;
  setup.world.check_options = check;
  run_sets(
      static_cast<int>(rates.size()),
      [&](const ProcessSet& all) {
        Pair pair(all);
        for (int step = 0; step < 4; ++step) {
          if (step == 2) {
            pair.optimizer->param_groups()[0].options["lr"] =
                rates[static_cast<std::size_t>(all.rank())];
          }
          sum(pair.a).backward();
          if (check == "error" && step == 2) {
            EXPECT_THAT(message_of<MismatchError>([&] { pair.optimizer->step(); }),
                        HasSubstr("lr of group 0 is 0.25 on rank 1, 0.5 on rank 0"));
            return;
          }
          pair.step();
        }
      },
      setup);
}

TEST(OptimizerOptions, ThatDifferAreOneWarningWithTheOptionItsValuesAndTheRanks) {
  Warnings warnings;
  train_with_rates({0.5, 0.25, 0.5}, "warn");
  EXPECT_THAT(
      warnings.texts(),
      testing::ElementsAre(HasSubstr("lr of group 0 is 0.25 on rank 1, 0.5 on ranks 0 and 2")));
}

TEST(OptimizerOptions, ThatDifferAreAnErrorOrNothingOnRequest) {
  Warnings warnings;
  train_with_rates({0.5, 0.25}, "error");
  train_with_rates({0.5, 0.25}, "0");
  EXPECT_THAT(warnings.texts(), testing::IsEmpty());
}

}  // namespace
}  // namespace hvd
