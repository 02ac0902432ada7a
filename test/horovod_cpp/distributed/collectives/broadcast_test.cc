#include "horovod_cpp/distributed/collectives/broadcast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

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
  run_sets(3, [](const ProcessSet& all) {
    const double mine = all.rank();
    const NamedTensors state = {{"weight", Tensor::full({3, 2}, mine)},
                                {"steps", Tensor::scalar(mine, DType::kI64)},
                                {"half", Tensor::full({5}, mine, DType::kBF16)}};
    broadcast_parameters(state, 2, all);
    for (const auto& [name, tensor] : state) {
      for (const double value : tensor.to_vector()) EXPECT_EQ(value, 2) << name;
    }
  });
}

TEST(BroadcastParameters, HasNothingInFlightAfterAMismatch) {
  run_sets(2, [](const ProcessSet& all) {
    const Rank rank = all.rank();
    NamedTensors state = {{"differs", Tensor::zeros({1 + rank})}};
    for (int i = 0; i < 50; ++i) {
      state.emplace_back("equal" + std::to_string(i), Tensor::zeros({50000}));
    }
    EXPECT_THROW(broadcast_parameters(state, 0, all), MismatchError);
    state.erase(state.begin());
    EXPECT_NO_THROW(broadcast_parameters(state, 0, all));
  });
}

TEST(BroadcastObject, CarriesBytesOfAnyLength) {
  for (const std::size_t length : {0u, 1u, 100000u}) {
    run_sets(2, [length](const ProcessSet& all) {
      const Bytes sent(length, std::byte{7});
      const Bytes mine = all.rank() == 1 ? sent : Bytes(3);
      EXPECT_EQ(broadcast_object(mine, 1, "", all), sent);
    });
  }
}

TEST(BroadcastOptimizerState, LeavesTheRootBitwiseAsItWasAndTakesNoStep) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor weight = parameter({4}, all.rank());
    optim::Adam adam({weight}, {.lr = 0.5});
    adam.step();
    const Tensor before = weight.detach().clone();
    const NamedTensors state_before = adam.state_dict();
    std::vector<Tensor> copies;
    for (const auto& [name, tensor] : state_before) copies.push_back(tensor.clone());
    broadcast_optimizer_state(adam, 0, all);
    EXPECT_TRUE(bitwise_equal(weight.detach(), before));
    if (all.rank() == 0) {
      const NamedTensors state_after = adam.state_dict();
      ASSERT_EQ(state_after.size(), copies.size());
      for (std::size_t i = 0; i < copies.size(); ++i) {
        EXPECT_TRUE(bitwise_equal(state_after[i].second, copies[i])) << state_after[i].first;
      }
    }
  });
}

TEST(BroadcastOptimizerState, CreatesMissingStateAndDropsSurplusState) {
  run_sets(2, [](const ProcessSet& all) {
    const bool root = all.rank() == 1;
    Tensor weight = parameter({4}, 3);
    optim::Adam adam({weight}, {.lr = root ? 0.25 : 0.5});
    if (root) adam.step();
    broadcast_optimizer_state(adam, 1, all);
    EXPECT_EQ(adam.param_groups()[0].options.at("lr"), 0.25);
    ASSERT_EQ(adam.state().count(weight.id()), 1u);
    const optim::ParamState& state = adam.state().at(weight.id());
    EXPECT_EQ(state.steps, 1);
    EXPECT_NE(state.tensors.at("exp_avg").to_vector()[0], 0);

    optim::Adam fresh({weight}, {.lr = 0.5});
    if (!root) fresh.step();
    broadcast_optimizer_state(fresh, 1, all);
    EXPECT_TRUE(fresh.state().empty());
  });
}

// What broadcast_optimizer_state says on the calling rank, which must be the same on all.
std::string misfit_of(optim::Optimizer& optimizer, const ProcessSet& all) {
  return message_of<MismatchError>([&] { broadcast_optimizer_state(optimizer, 0, all); });
}

TEST(BroadcastOptimizerState, WhatDoesNotFitIsAnErrorOnEveryRank) {
  run_sets(3, [](const ProcessSet& all) {
    const bool odd_one = all.rank() == 2;
    std::vector<Tensor> fewer = {parameter({2}, 1), parameter({2}, 1)};
    if (odd_one) fewer.pop_back();
    optim::SGD first(fewer, {.lr = 0.1});
    EXPECT_EQ(misfit_of(first, all),
              "broadcast_optimizer_state: entry 2 is nothing on rank 2, parameter 1 of group 0, "
              "float32 [2] on rank 0, the root; all ranks must have made the same model");
    optim::SGD second({parameter({odd_one ? 3 : 2}, 1)}, {.lr = 0.1});
    EXPECT_EQ(
        misfit_of(second, all),
        "broadcast_optimizer_state: entry 1 is parameter 0 of group 0, float32 [3] on rank 2, "
        "parameter 0 of group 0, float32 [2] on rank 0, the root; all ranks must have made the "
        "same model");
    std::shared_ptr<optim::Optimizer> other;
    if (odd_one) {
      other = std::make_shared<optim::Adam>(std::vector<Tensor>{parameter({2}, 1)});
    } else {
      other = std::make_shared<optim::SGD>(std::vector<Tensor>{parameter({2}, 1)});
    }
    EXPECT_THAT(misfit_of(*other, all), HasSubstr("nesterov"));
  });
}

TEST(BroadcastOptimizerState, FrozenParametersAndMomentumStayBitwise) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor trained = parameter({3}, all.rank() + 1);
    Tensor frozen = Tensor::full({2}, 7);
    optim::SGD sgd({trained, frozen}, {.lr = 0.5, .momentum = 0.5});
    sgd.step();
    sgd.step();
    const Tensor before = sgd.state().at(trained.id()).tensors.at("momentum_buffer").clone();
    broadcast_optimizer_state(sgd, 0, all);
    const Tensor after = sgd.state().at(trained.id()).tensors.at("momentum_buffer");
    if (all.rank() == 0) {
      EXPECT_TRUE(bitwise_equal(before, after));
    }
    EXPECT_EQ(after.to_vector()[0], 3);  // of rank 0: gradient 2, then 0.5 * 2 + 2
    EXPECT_EQ(sgd.state().count(frozen.id()), 0u);
  });
}

TEST(BroadcastParameters, ADifferenceInNamesIsFoundAtOnceAndNamedOnEveryRank) {
  run_sets(3, [](const ProcessSet& all) {
    const bool odd_one = all.rank() == 1;
    const NamedTensors state = {{"a", Tensor::zeros({2})},
                                {odd_one ? "x" : "b", Tensor::zeros({2, 3}, DType::kF64)}};
    EXPECT_EQ(message_of<MismatchError>([&] { broadcast_parameters(state, 0, all); }),
              "broadcast_parameters: entry 1 is 'x' float64 [2, 3] on rank 1, 'b' float64 [2, 3] "
              "on rank 0, the root; all ranks must have made the same model");
    const NamedTensors shorter(state.begin(), state.begin() + (odd_one ? 1 : 2));
    EXPECT_EQ(message_of<MismatchError>([&] { broadcast_parameters(shorter, 2, all); }),
              "broadcast_parameters: entry 1 is nothing on rank 1, 'b' float64 [2, 3] on rank 2, "
              "the root; all ranks must have made the same model");
  });
}

TEST(BroadcastParameters, ReachesTensorsThatAreNotContiguous) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor base = Tensor::full({2, 3}, all.rank());
    broadcast_parameters({{"transposed", base.t()}}, 1, all);
    EXPECT_EQ(base.to_vector(), std::vector<double>(6, 1));
  });
}

TEST(AllgatherObject, GivesEveryRanksBytesInOrder) {
  run_sets(3, [](const ProcessSet& all) {
    const Bytes mine(static_cast<std::size_t>(all.rank() * 5), std::byte{3});
    const std::vector<Bytes> objects = allgather_object(mine, "lengths", all);
    ASSERT_EQ(objects.size(), 3u);
    for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(objects[rank].size(), rank * 5);
  });
}

}  // namespace
}  // namespace hvd
