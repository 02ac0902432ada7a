// When gradients are submitted: those that are small wait for each other, but not for step().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/horovod_cpp/distributed/worlds.h"

namespace hvd {
namespace {

using ::testing::Each;

constexpr std::int64_t kLarge = 300'000;  // floats; more than what waits

WorldsSetup impatient() {
  WorldsSetup setup;
  setup.config.stall_limit = std::chrono::seconds(60);
  return setup;
}

std::vector<Tensor> make_params(std::initializer_list<std::int64_t> numels) {
  std::vector<Tensor> params;
  for (const std::int64_t numel : numels) {
    params.push_back(Tensor::zeros({numel}).requires_grad_());
  }
  return params;
}

void backward(const std::vector<Tensor>& params, double factor) {
  Tensor loss = Tensor::scalar(0);
  for (const Tensor& param : params) loss = loss + sum(param * factor);
  loss.backward();
}

// The memory in which gradients are reduced: before an optimizer takes them.
std::vector<Tensor> note_gradients(const std::vector<Tensor>& params, std::vector<Tensor>& noted) {
  for (const Tensor& param : params) {
    param.register_hook([&noted](const Tensor& leaf) { noted.push_back(leaf.grad()); });
  }
  return params;
}

bool become(const std::vector<Tensor>& gradients, double value) {
  const TimePoint limit = Clock::now() + std::chrono::seconds(20);
  const auto reduced = [value](const Tensor& each) {
    return each.slice(0, each.size(0) - 1, each.size(0)).item() == value;
  };
  while (!std::ranges::all_of(gradients, reduced) && Clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return std::ranges::all_of(gradients, reduced);
}

TEST(GradientSubmission, AllGradientsAreOnTheirWayWhenBackwardEnds) {
  run_sets(
      2,
      [](const ProcessSet& all) {
        std::vector<Tensor> gradients;
        const std::vector<Tensor> params =
            note_gradients(make_params({3, 5, kLarge, 7, 2}), gradients);
        DistributedOptimizer optimizer(
            std::make_shared<optim::SGD>(params, optim::SGDOptions{.lr = 1}), {},
            {.process_set = all});
        for (int step = 0; step < 3; ++step) {
          gradients.clear();
          backward(params, all.rank() == 0 ? 1 : 3);
          EXPECT_EQ(gradients.size(), params.size());
          EXPECT_TRUE(become(gradients, 2));
          optimizer.step();
          optimizer.zero_grad();
        }
        for (const Tensor& param : params) {
          EXPECT_THAT(param.slice(0, param.size(0) - 2, param.size(0)).to_vector(), Each(-6));
        }
      },
      impatient());
}

// Where step() follows backward() at once, the last gradients may wait for it. Where it does not
// any more, all are on their way from the next step on.
TEST(GradientSubmission, GradientsGetThereWhenStepDoesNotFollowAtOnceAnyMore) {
  run_sets(
      2,
      [&](const ProcessSet& all) {
        std::vector<Tensor> gradients;
        const std::vector<Tensor> params = note_gradients(make_params({3, kLarge, 5}), gradients);
        DistributedOptimizer optimizer(
            std::make_shared<optim::SGD>(params, optim::SGDOptions{.lr = 1}), {},
            {.process_set = all});
        for (int step = 0; step < 6; ++step) {
          gradients.clear();
          backward(params, all.rank() == 0 ? 1 : 3);
          if (step > 3) {
            EXPECT_TRUE(become(gradients, 2));
          }
          // Also after become(), which returns at once where the other rank was faster.
          if (step >= 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          optimizer.step();
          optimizer.zero_grad();
        }
        for (const Tensor& param : params) EXPECT_THAT(param.slice(0, 0, 3).to_vector(), Each(-12));
      },
      impatient());
}

// The second pass comes when the reduction of the first may still wait to be submitted.
TEST(GradientSubmission, AParameterWhoseGradientWaitsMayGetAnother) {
  run_sets(
      2,
      [](const ProcessSet& all) {
        const std::vector<Tensor> params = make_params({3, 5});
        DistributedOptimizer optimizer(
            std::make_shared<optim::SGD>(params, optim::SGDOptions{.lr = 1}), {},
            {.process_set = all});
        const auto failing = params[0].register_hook(
            [](const Tensor&) { throw std::runtime_error("in the middle of a pass"); });
        EXPECT_THROW(backward(params, all.rank() == 0 ? 1 : 3),
                     std::runtime_error);  // nothing is called at its end
        failing();
        backward(params, all.rank() == 0 ? 1 : 3);
        optimizer.step();
        const auto grads = params[0].grad().to_vector();
        EXPECT_THAT(grads, Each(4));  // twice (1 + 3) / 2
      },
      impatient());
}

TEST(GradientSubmission, ASmallThresholdSendsThemDuringBackward) {
  WorldsSetup setup = impatient();
  setup.world.bucket_bytes = 16;  // HOROVOD_FUSION_THRESHOLD
  run_sets(
      2,
      [](const ProcessSet& all) {
        std::vector<Tensor> gradients;
        bool reduced = false;
        const std::vector<Tensor> params = make_params({4, 4, 4});
        for (const Tensor& param : params) {
          param.register_hook([&](const Tensor& leaf) {
            gradients.push_back(leaf.grad());
            if (gradients.size() == params.size()) reduced = become({gradients[0]}, 2);
          });
        }
        DistributedOptimizer optimizer(
            std::make_shared<optim::SGD>(params, optim::SGDOptions{.lr = 1}), {},
            {.process_set = all});
        for (int step = 0; step < 3; ++step) {
          gradients.clear();
          backward(params, all.rank() == 0 ? 1 : 3);
          EXPECT_TRUE(reduced) << "step " << step;
          optimizer.step();
          optimizer.zero_grad();
        }
      },
      setup);
}

}  // namespace
}  // namespace hvd
