// What the ranks of an optimizer compare before they reduce.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/horovod_cpp/distributed/warnings.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Model {
  std::vector<Tensor> weights{Tensor::zeros({2}).requires_grad_(),
                              Tensor::zeros({3}).requires_grad_()};
  std::string first_name = "first.weight";

  std::unique_ptr<DistributedOptimizer> optimizer(DistributedOptions options) const {
    return std::make_unique<DistributedOptimizer>(
        std::make_shared<optim::SGD>(weights, optim::SGDOptions{.lr = 1}),
        NamedTensors{{first_name, weights[0]}, {"second.weight", weights[1]}}, std::move(options));
  }
  void backward() const { (sum(weights[0]) + sum(weights[1])).backward(); }
};

// Otherwise they would add up gradients of different passes.
TEST(SetupAgreement, DifferentPassesPerStepAreAnErrorOnEveryRank) {
  run_sets(3, [](const ProcessSet& all) {
    const Model model;
    const auto optimizer = model.optimizer({.process_set = all});
    const int passes = all.rank() == 1 ? 3 : 2;
    EXPECT_THAT(
        message_of<MismatchError>([&] { optimizer->set_backward_passes_per_step(passes); }),
        HasSubstr("DistributedOptimizer: the ranks differ in backward_passes_per_step; rank " +
                  std::to_string(all.rank()) + " has " + std::to_string(passes)));
    EXPECT_EQ(optimizer->backward_passes_per_step(), 1) << "nothing has changed";
    model.backward();
    optimizer->step();
    EXPECT_THAT(model.weights[0].to_vector(), Each(-1));
    optimizer->set_backward_passes_per_step(2);
    EXPECT_EQ(optimizer->backward_passes_per_step(), 2);
    // Nor may a rank keep the number that it has.
    EXPECT_THROW(optimizer->set_backward_passes_per_step(all.rank() == 0 ? 2 : 4), MismatchError);
    EXPECT_EQ(optimizer->backward_passes_per_step(), 2);
  });
}

TEST(SetupAgreement, DifferentPassesFromTheBeginningAreAnErrorOfTheFirstStep) {
  run_sets(2, [](const ProcessSet& all) {
    const Model model;
    const auto optimizer =
        model.optimizer({.backward_passes_per_step = all.rank() + 1, .process_set = all});
    EXPECT_THAT(message_of<MismatchError>([&] {
                  for (int pass = 0; pass <= all.rank(); ++pass) model.backward();
                  optimizer->step();
                }),
                HasSubstr("the ranks differ in backward_passes_per_step"));
  });
}

TEST(SetupAgreement, DifferentNamesAreAnErrorOnEveryRank) {
  run_sets(2, [](const ProcessSet& all) {
    Model model;
    if (all.rank() == 1) model.first_name = "1st.weight";
    const auto optimizer = model.optimizer({.process_set = all});
    EXPECT_THAT(message_of<MismatchError>([&] {
                  model.backward();
                  optimizer->step();
                }),
                HasSubstr("the ranks differ in parameters: their number, names or order; rank " +
                          std::to_string(all.rank()) + " has 2, from '" + model.first_name +
                          "' to 'second.weight'. Make the same model and optimizer"));
  });
}

TEST(SetupAgreement, DifferentGroupsAreAnErrorOnEveryRank) {
  run_sets(2, [](const ProcessSet& all) {
    const Model model;
    const auto optimizer = model.optimizer({.num_groups = all.rank() + 1, .process_set = all});
    EXPECT_THAT(message_of<MismatchError>([&] {
                  model.backward();
                  optimizer->step();
                }),
                HasSubstr("the ranks differ in buckets"));
  });
}

TEST(SetupAgreement, DifferentValuesAreOneWarningThatNamesTheFirst) {
  Warnings warnings;
  run_sets(3, [](const ProcessSet& all) {
    const Model model;
    if (all.rank() == 2) {
      const Tensor values = model.weights[1].detach();
      Tensor(values).fill_(5);
    }
    const auto optimizer = model.optimizer({.process_set = all});
    for (int step = 0; step < 2; ++step) {
      model.backward();
      optimizer->step();
      optimizer->zero_grad();
    }
  });
  EXPECT_THAT(
      warnings.texts(),
      ElementsAre(HasSubstr("parameters differ between rank 0 and rank 2 at the first step: "
                            "'second.weight'. Each rank would train another model: call "
                            "hvd.broadcast_parameters(model.state_dict(), root_rank=0)")));
}

TEST(SetupAgreement, ValuesThatDifferLaterAreOneWarningThatNamesTheStep) {
  Warnings warnings;
  run_sets(3, [](const ProcessSet& all) {
    const Model model;
    const auto optimizer = model.optimizer({.process_set = all});
    for (int step = 1; step <= 9; ++step) {
      model.backward();
      optimizer->step();
      optimizer->zero_grad();
      const Tensor values = model.weights[1].detach();
      if (step == 3 && all.rank() == 1) Tensor(values).fill_(5);
    }
  });
  EXPECT_THAT(warnings.texts(),
              ElementsAre(HasSubstr("parameters differ between rank 0 and rank 1 after step 4: "
                                    "'second.weight'. Each rank trains another model now")));
}

TEST(SetupAgreement, ComparesNoValuesWhereTheJobDoesNotWantIt) {
  Warnings warnings;
  WorldsSetup setup;
  setup.world.check_parameters = false;
  run_sets(
      2,
      [](const ProcessSet& all) {
        const Model model;
        const Tensor values = model.weights[0].detach();
        Tensor(values).fill_(all.rank());
        const auto optimizer = model.optimizer({.process_set = all});
        for (int step = 0; step < 3; ++step) {
          model.backward();
          optimizer->step();
        }
      },
      setup);
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST(SetupAgreement, GradientsMayBeCombinedByAnyOperation) {
  const std::vector<std::pair<ReduceOp, double>> cases{
      {ReduceOp::kMin, 1}, {ReduceOp::kMax, 3}, {ReduceOp::kProduct, 6}, {ReduceOp::kSum, 6}};
  for (const auto& [op, expected] : cases) {
    run_sets(3, [&, op = op, expected = expected](const ProcessSet& all) {
      const Model model;
      const auto optimizer = model.optimizer({.op = op, .process_set = all});
      (sum(model.weights[0] * static_cast<double>(all.rank() + 1)) + sum(model.weights[1]))
          .backward();
      optimizer->step();
      EXPECT_THAT(model.weights[0].to_vector(), Each(-expected)) << name_of(op);
    });
  }
}

}  // namespace
}  // namespace hvd
