#include "horovod_cpp/dist/broadcast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/optim/adam.h"
#include "horovod_cpp/optim/sgd.h"
#include "test/horovod_cpp/dist/worlds.h"

namespace hvd {
namespace {

using ::testing::HasSubstr;

// A parameter with a gradient, both depending on the rank.
Tensor parameter(Shape shape, double value) {
  Tensor tensor = Tensor::full(shape, value);
  tensor.requires_grad_();
  tensor.set_grad(Tensor::full(shape, value + 1));
  return tensor;
}

TEST(BroadcastParameters, OverwritesEveryTensorOfEveryDtype) {
  run_worlds(3, [](const std::shared_ptr<World>& world) {
    const double mine = world->topology().rank;
    const NamedTensors state = {{"weight", Tensor::full({3, 2}, mine)},
                                {"steps", Tensor::scalar(mine, DType::kI64)},
                                {"half", Tensor::full({5}, mine, DType::kBF16)}};
    broadcast_parameters(state, 2, world);
    for (const auto& [name, tensor] : state) {
      for (const double value : tensor.to_vector()) EXPECT_EQ(value, 2) << name;
    }
  });
}

TEST(BroadcastParameters, HasNothingInFlightAfterAMismatch) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    const Rank rank = world->topology().rank;
    NamedTensors state = {{"differs", Tensor::zeros({1 + rank})}};
    for (int i = 0; i < 50; ++i) {
      state.emplace_back("equal" + std::to_string(i), Tensor::zeros({50000}));
    }
    EXPECT_THROW(broadcast_parameters(state, 0, world), MismatchError);
    state.erase(state.begin());
    EXPECT_NO_THROW(broadcast_parameters(state, 0, world));
  });
}

TEST(BroadcastObject, CarriesBytesOfAnyLength) {
  for (const std::size_t length : {0, 1, 100000}) {
    run_worlds(2, [length](const std::shared_ptr<World>& world) {
      const Bytes sent(length, std::byte{7});
      const Bytes mine = world->topology().rank == 1 ? sent : Bytes(3);
      EXPECT_EQ(broadcast_object(mine, 1, "", world), sent);
    });
  }
}

TEST(BroadcastOptimizerState, LeavesTheRootBitwiseAsItWasAndTakesNoStep) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor weight = parameter({4}, world->topology().rank);
    optim::Adam adam({weight}, {.lr = 0.5});
    adam.step();
    const Tensor before = weight.detach().clone();
    const NamedTensors state_before = adam.state_dict();
    std::vector<Tensor> copies;
    for (const auto& [name, tensor] : state_before) copies.push_back(tensor.clone());
    broadcast_optimizer_state(adam, 0, world);
    EXPECT_TRUE(bitwise_equal(weight.detach(), before));
    if (world->topology().rank == 0) {
      const NamedTensors state_after = adam.state_dict();
      ASSERT_EQ(state_after.size(), copies.size());
      for (std::size_t i = 0; i < copies.size(); ++i) {
        EXPECT_TRUE(bitwise_equal(state_after[i].second, copies[i])) << state_after[i].first;
      }
    }
  });
}

TEST(BroadcastOptimizerState, CreatesMissingStateAndDropsSurplusState) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    const bool root = world->topology().rank == 1;
    Tensor weight = parameter({4}, 3);
    optim::Adam adam({weight}, {.lr = root ? 0.25 : 0.5});
    if (root) adam.step();
    broadcast_optimizer_state(adam, 1, world);
    EXPECT_EQ(adam.param_groups()[0].options.at("lr"), 0.25);
    ASSERT_EQ(adam.state().count(weight.id()), 1u);
    const optim::ParamState& state = adam.state().at(weight.id());
    EXPECT_EQ(state.steps, 1);
    EXPECT_NE(state.tensors.at("exp_avg").to_vector()[0], 0);

    optim::Adam fresh({weight}, {.lr = 0.5});
    if (!root) fresh.step();
    broadcast_optimizer_state(fresh, 1, world);
    EXPECT_TRUE(fresh.state().empty());
  });
}

TEST(BroadcastOptimizerState, GroupsThatDoNotFitAreAnErrorOnEveryRank) {
  run_worlds(3, [](const std::shared_ptr<World>& world) {
    std::vector<Tensor> params = {parameter({2}, 1), parameter({2}, 1)};
    if (world->topology().rank == 2) params.pop_back();
    optim::SGD sgd(params, {.lr = 0.1});
    try {
      broadcast_optimizer_state(sgd, 0, world);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgumentError& error) {
      EXPECT_THAT(error.what(), HasSubstr("parameter"));
    }
  });
}

}  // namespace
}  // namespace hvd
