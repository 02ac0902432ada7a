#include "horovod_cpp/distributed/distributed_data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/optim/optimizers.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<nn::Sequential> fresh_model(std::uint64_t seed) {
  manual_seed(seed);
  return std::make_shared<nn::Sequential>(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Tanh(),
                                          nn::Linear(4, 2));
}

Tensor rows(std::uint64_t seed) {
  manual_seed(seed);
  return randn({4, 3});
}

// A weight for each rank, of which a pass uses one.
class OneOf : public nn::Module {
 public:
  OneOf() {
    for (const char* name : {"a", "b", "never"}) {
      weights.push_back(register_parameter(name, Tensor::ones({2})));
    }
  }
  Tensor forward(const Tensor& input) override {
    return used < 0 ? input * 1.0 : input * weights[static_cast<std::size_t>(used)];
  }
  std::vector<Tensor> weights;
  int used = 0;
};

std::shared_ptr<OneOf> one_of(int used) {
  auto module = std::make_shared<OneOf>();
  module->used = used;
  return module;
}

// Nobody leaves while the other one still starts or waits.
void run_together(int size, const std::function<void(const ProcessSet&)>& body) {
  run_sets(size, [&](const ProcessSet& all) {
    body(all);
    barrier({.process_set = all});
  });
}

TEST(DistributedDataParallel, StartsEveryRankWithTheFirstOnesParametersAndBuffers) {
  run_together(2, [](const ProcessSet& all) {
    const auto model = fresh_model(static_cast<std::uint64_t>(all.rank()));
    model->named_buffers()[0].second.fill_(all.rank() + 5);
    const DistributedDataParallel ddp(model, {.process_set = all});
    const auto expected = fresh_model(0)->parameters();
    const auto got = ddp.parameters();
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(bitwise_equal(got[i], expected[i]));
    EXPECT_THAT(model->named_buffers()[0].second.to_vector(), testing::Each(5));
  });
}

// Averages by hand after a plain backward() are what DDP leaves behind.
void expect_averages(const DistributedDataParallelOptions& given) {
  run_together(2, [&](const ProcessSet& all) {
    const auto seed = static_cast<std::uint64_t>(all.rank());
    const auto plain = fresh_model(0);
    DistributedDataParallelOptions options = given;
    options.process_set = all;
    const auto model = fresh_model(0);
    DistributedDataParallel ddp(model, options);
    optim::SGD by_hand(plain->parameters(), optim::SGDOptions{.lr = 0.5, .momentum = 0.9});
    optim::SGD optimizer(ddp.parameters(), optim::SGDOptions{.lr = 0.5, .momentum = 0.9});
    for (std::uint64_t pass = 0; pass < 4; ++pass) {
      const Tensor input = rows(10 * pass + seed);
      for (nn::Module* each :
           {static_cast<nn::Module*>(plain.get()), static_cast<nn::Module*>(&ddp)}) {
        each->zero_grad(pass != 2);
        sum((*each)(input)*2.0).backward();
      }
      average_gradients(*plain, {.process_set = all});
      for (std::size_t i = 0; i < plain->parameters().size(); ++i) {
        EXPECT_TRUE(bitwise_equal(ddp.parameters()[i].grad(), plain->parameters()[i].grad()))
            << "parameter " << i << ", pass " << pass;
      }
      by_hand.step();
      optimizer.step();
    }
    for (std::size_t i = 0; i < plain->parameters().size(); ++i) {
      EXPECT_TRUE(bitwise_equal(ddp.parameters()[i], plain->parameters()[i]));
    }
  });
}

TEST(DistributedDataParallel, LeavesAveragedGradientsForAnyOptimizerWhenBackwardReturns) {
  expect_averages({});
}

TEST(DistributedDataParallel, GivesTheSameBitsWithBucketsAndWithMemoryOfItsOwn) {
  expect_averages({.gradient_as_bucket_view = false});
  expect_averages({.bucket_cap_mb = 25});
  expect_averages({.bucket_cap_mb = 1e-4});
}

TEST(DistributedDataParallel, CountsWhatARankDidNotUseAsZerosWithoutAFlag) {
  run_together(2, [](const ProcessSet& all) {
    const auto module = one_of(all.rank());
    DistributedDataParallel ddp(module, {.process_set = all});
    for (int pass = 0; pass < 2; ++pass) {
      ddp.zero_grad();
      sum(ddp(Tensor::full({1, 2}, 8))).backward();
      EXPECT_THAT(module->weights[0].grad().to_vector(), ElementsAre(4, 4));
      EXPECT_THAT(module->weights[1].grad().to_vector(), ElementsAre(4, 4));
      EXPECT_THAT(module->weights[2].grad().to_vector(), ElementsAre(0, 0));
    }
  });
}

TEST(DistributedDataParallel, TakesPartWithARankWhosePassUsedNoParameterAtAll) {
  run_together(2, [](const ProcessSet& all) {
    const auto module = one_of(all.rank() == 0 ? 0 : -1);
    DistributedDataParallel ddp(module, {.process_set = all});
    Tensor input = Tensor::full({1, 2}, 8).requires_grad_();
    sum(ddp(input)).backward();
    EXPECT_THAT(module->weights[0].grad().to_vector(), ElementsAre(4, 4));
  });
}

TEST(DistributedDataParallel, AccumulatesInsideNoSyncAndReducesTheSumAfterIt) {
  run_together(2, [](const ProcessSet& all) {
    const auto module = one_of(0);
    DistributedDataParallel ddp(module, {.process_set = all});
    const double mine = all.rank() == 0 ? 2 : 4;
    {
      const ScopeGuard guard = ddp.no_sync();
      sum(ddp(Tensor::full({1, 2}, mine))).backward();
      EXPECT_THAT(module->weights[0].grad().to_vector(), ElementsAre(mine, mine));
    }
    sum(ddp(Tensor::full({1, 2}, 10 * mine))).backward();
    EXPECT_THAT(module->weights[0].grad().to_vector(), ElementsAre(33, 33));
    sum(ddp(Tensor::full({1, 2}, mine))).backward();  // adds up, as without ranks
    EXPECT_THAT(module->weights[0].grad().to_vector(), ElementsAre(36, 36));
  });
}

TEST(DistributedDataParallel, SendsTheFirstRanksBuffersBeforeAForwardInTrainingAlone) {
  for (const bool shares : {true, false}) {
    run_together(2, [&](const ProcessSet& all) {
      const auto model = fresh_model(0);
      DistributedDataParallel ddp(model, {.broadcast_buffers = shares, .process_set = all});
      Tensor batches = model->named_buffers()[2].second;
      batches.fill_(all.rank() == 0 ? 10 : 20);
      {
        const NoGradGuard no_grad;
        ddp.eval();
        ddp(rows(1));
        EXPECT_EQ(batches.item(), all.rank() == 0 ? 10 : 20);
        ddp.train();
      }
      ddp(rows(1));
      EXPECT_EQ(batches.item(), all.rank() == 0 || shares ? 11 : 21);
    });
  }
}

TEST(DistributedDataParallel, HasTheNamesOfTheModuleInside) {
  run_together(2, [](const ProcessSet& all) {
    const auto model = fresh_model(0);
    DistributedDataParallel ddp(model, {.process_set = all});
    EXPECT_EQ(ddp.module(), model);
    const auto state = ddp.state_dict();
    ASSERT_EQ(state.size(), model->state_dict().size());
    for (std::size_t i = 0; i < state.size(); ++i) {
      EXPECT_EQ(state[i].first, model->state_dict()[i].first);
    }
    EXPECT_EQ(ddp.named_descendants()[1].first, "0");
    EXPECT_EQ(model->at(3)->path(), "3");
    ddp.eval();
    EXPECT_FALSE(model->at(1)->is_training());
    EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                  ddp(Tensor::ones({2, 5}));
                }),
                HasSubstr("'0' (Linear)"));
  });
}

TEST(DistributedDataParallel, TellsApartTwoModulesOfEqualNamesInOneGraph) {
  run_together(2, [](const ProcessSet& all) {
    const auto first = one_of(0), second = one_of(0);
    DistributedDataParallel one(first, {.process_set = all});
    DistributedDataParallel two(second, {.process_set = all});
    sum(two(one(Tensor::full({1, 2}, all.rank())) + 1.0)).backward();
    EXPECT_THAT(first->weights[0].grad().to_vector(), ElementsAre(0.5, 0.5));
    EXPECT_THAT(second->weights[0].grad().to_vector(), ElementsAre(1.5, 1.5));
  });
}

TEST(DistributedDataParallel, ReducesNothingForGradientsThatAreAskedFor) {
  run_sets(2, [](const ProcessSet& all) {
    const auto module = one_of(0);
    DistributedDataParallel ddp(module, {.process_set = all});
    barrier({.process_set = all});
    if (all.rank() == 1) return;  // would stall the other one if it communicated
    Tensor output = (ddp.eval(), sum(ddp(Tensor::full({1, 2}, 8))));
    EXPECT_THAT(grad({output}, {module->weights[0]})[0].to_vector(), ElementsAre(8, 8));
    EXPECT_FALSE(module->weights[0].grad().defined());
  });
}

TEST(DistributedDataParallel, AndADistributedOptimizerRefuseOneAnothersParameters) {
  run_together(2, [](const ProcessSet& all) {
    const auto model = fresh_model(0);
    const auto optimizer = std::make_shared<optim::SGD>(model->parameters());
    const auto wrap = [&] {
      return DistributedOptimizer(optimizer, model->named_parameters(), {.process_set = all});
    };
    {
      const DistributedDataParallel ddp(model, {.process_set = all});
      EXPECT_THAT(message_of<InvalidArgumentError>(wrap),
                  HasSubstr("'0.weight' is reduced by a DistributedDataParallel already"));
    }
    const DistributedOptimizer distributed = wrap();
    EXPECT_THAT(message_of<InvalidArgumentError>(
                    [&] { DistributedDataParallel(model, {.process_set = all}); }),
                HasSubstr("is reduced by a DistributedOptimizer already"));
  });
}

TEST(DistributedDataParallel, RefusesModulesThatDifferAndOptionsOutOfRange) {
  run_together(2, [](const ProcessSet& all) {
    EXPECT_THAT(message_of<MismatchError>([&] {
                  DistributedDataParallel(std::make_shared<nn::Linear>(2 + all.rank(), 1),
                                          {.process_set = all});
                }),
                HasSubstr("weight"));
    EXPECT_THAT(
        message_of<MismatchError>([&] {
          DistributedDataParallel(one_of(0),
                                  {.broadcast_buffers = all.rank() == 0, .process_set = all});
        }),
        testing::StrEq("DistributedDataParallel: the ranks differ in broadcast_buffers; rank " +
                       std::string(all.rank() == 0 ? "0 has it on" : "1 has it off") +
                       ". Give all ranks the same"));
    EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                  DistributedDataParallel(one_of(0), {.bucket_cap_mb = -1, .process_set = all});
                }),
                HasSubstr("bucket_cap_mb is -1"));
    EXPECT_THAT(message_of<InvalidArgumentError>(
                    [&] { DistributedDataParallel(nullptr, {.process_set = all}); }),
                HasSubstr("no module"));
  });
}

TEST(AverageGradients, AveragesWhatIsThereAndNamesRanksThatDiffer) {
  run_together(2, [](const ProcessSet& all) {
    OneOf module;
    module.weights[0].set_grad(Tensor::full({2}, 4 * all.rank()));
    average_gradients(module, {.process_set = all});
    EXPECT_THAT(module.weights[0].grad().to_vector(), ElementsAre(2, 2));
    EXPECT_FALSE(module.weights[1].grad().defined());
    if (all.rank() == 1) module.weights[1].set_grad(Tensor::ones({2}));
    EXPECT_THAT(message_of<MismatchError>(
                    [&] { average_gradients(module.parameters(), {.process_set = all}); }),
                HasSubstr("average_gradients"));
  });
}

}  // namespace
}  // namespace hvd
