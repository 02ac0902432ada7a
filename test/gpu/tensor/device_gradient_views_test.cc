// Gradients in arenas of a device, and of several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/optim/optimizers.h"
#include "horovod_cpp/tensor/device.h"
#include "ops/connect/backends.h"
#include "test/core/runtime/forwarding_collective.h"
#include "test/horovod_cpp/distributed/worlds.h"

namespace hvd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Device kCpu{};
const Device kGpu{DeviceKind::kCuda, 0};

// Counts the tensors that it reduces, those without a place apart; makes arenas or not.
class Counting final : public engine::test::ForwardingCollective {
 public:
  struct Seen {
    bool shares = true;
    std::atomic<int> placed = 0;
    std::atomic<int> packed = 0;
  };
  Counting(std::unique_ptr<engine::Collective> inner, Seen& seen)
      : ForwardingCollective(std::move(inner)), seen_(seen) {}

  std::unique_ptr<engine::Operation> make_arena(std::uint64_t number, std::size_t bytes,
                                                engine::ArenaMemory& made) override {
    return seen_.shares ? ForwardingCollective::make_arena(number, bytes, made)
                        : engine::Collective::make_arena(number, bytes, made);
  }
  std::unique_ptr<engine::Operation> all_reduce(std::span<const engine::Slice> slices,
                                                const Reduction& reduction) override {
    for (const engine::Slice& slice : slices) ++(slice.place ? seen_.placed : seen_.packed);
    return ForwardingCollective::all_reduce(slices, reduction);
  }

 private:
  Seen& seen_;
};

class DeviceGradientViews : public ::testing::Test {
 protected:
  // Ranks whose collectives serve the CPU and the GPU.
  void run(int size, const std::function<void(const ProcessSet&)>& body) {
    engine::SimWorld hosts(size);
    engine::SimWorld devices(size, {.asynchronous = true, .device = DeviceKind::kCuda});
    engine::test::run_ranks(size, [&](Rank rank) {
      std::vector<std::unique_ptr<engine::Collective>> collectives;
      collectives.push_back(hosts.collective(rank));
      collectives.push_back(std::make_unique<Counting>(devices.collective(rank), seen_));
      const auto world = std::make_shared<World>(
          std::make_unique<engine::Runtime>(hosts.control_plane(rank), std::move(collectives),
                                            Config{}),
          WorldOptions{.gpu = engine::RankGpu{0, engine::nccl_library().module}});
      body(world->global_process_set());
      world->shutdown();
    });
  }

  Counting::Seen seen_;
};

std::vector<Tensor> make_params(const std::vector<Device>& devices) {
  constexpr std::int64_t kNumels[] = {5, 16, 33, 1, 200};
  std::vector<Tensor> params;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Tensor values = Tensor::arange(kNumels[i], DType::kF32) * 0.25 + 1.0;
    params.push_back(values.to(devices[i]).clone().requires_grad_());
  }
  return params;
}

using MakeOptimizer = std::function<std::shared_ptr<optim::Optimizer>(const std::vector<Tensor>&)>;

std::shared_ptr<optim::Optimizer> momentum_sgd(const std::vector<Tensor>& params) {
  return std::make_shared<optim::SGD>(params, optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
}

std::shared_ptr<optim::Optimizer> adam(const std::vector<Tensor>& params) {
  return std::make_shared<optim::Adam>(params, optim::AdamOptions{.lr = 0.01});
}

void backward(const std::vector<Tensor>& params, int rank, int step) {
  for (std::size_t i = 0; i < params.size(); ++i) {
    if ((static_cast<int>(i) + rank + step) % 4 == 3) continue;  // one has no gradient
    sum(params[i] * params[i] * (0.1 + 0.37 * rank + 0.011 * step)).backward();
  }
}

std::vector<Tensor> train(const ProcessSet& set, const std::vector<Device>& devices,
                          const MakeOptimizer& make, DistributedOptions options) {
  options.process_set = set;
  std::vector<Tensor> params = make_params(devices);
  DistributedOptimizer optimizer(make(params), {}, options);
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad(step % 2 == 0);
    backward(params, set.rank(), step);
    optimizer.step();
  }
  return params;
}

const std::byte* address(const Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.address());
}

TEST_F(DeviceGradientViews, LieOneAfterTheOtherOnEachDevice) {
  run(2, [&](const ProcessSet& all) {
    const std::vector<Tensor> params = make_params({kGpu, kCpu, kGpu, kCpu, kGpu});
    DistributedOptimizer optimizer(momentum_sgd(params), {}, {.process_set = all});
    backward(params, all.rank(), 0);
    optimizer.step();
    optimizer.zero_grad();
    std::vector<const std::byte*> first;
    for (int step = 0; step < 4; ++step) {
      backward(params, all.rank(), step);
      optimizer.step();
      std::vector<const std::byte*> places;
      for (const Tensor& param : params) {
        EXPECT_EQ(param.grad().device(), param.device());
        EXPECT_TRUE(grad_memory(param).is(param.grad()));
        places.push_back(address(param.grad()));
      }
      EXPECT_EQ(places[2], places[4] + 832);  // 200 elements, up to 64 bytes
      EXPECT_EQ(places[0], places[2] + 192);
      EXPECT_EQ(places[1], places[3] + 64);
      if (step == 0) first = places;
      EXPECT_EQ(places, first);
      optimizer.zero_grad(step % 2 == 0);
      EXPECT_EQ(params[0].grad().defined(), step % 2 == 1);
    }
  });
  EXPECT_EQ(seen_.packed, 2 * 2 * 3);  // of the first two steps
  EXPECT_EQ(seen_.placed, 3 * 2 * 3);
}

TEST_F(DeviceGradientViews, ChangeNoBit) {
  const std::vector<Device> on_gpu(5, kGpu);
  const std::vector<Device> mixed = {kGpu, kGpu, kCpu, kGpu, kCpu};
  for (const MakeOptimizer& make : {MakeOptimizer(momentum_sgd), MakeOptimizer(adam)}) {
    run(3, [&](const ProcessSet& all) {
      const auto expected = train(all, std::vector<Device>(5, kCpu), make, {});
      for (const DistributedOptions& options :
           {DistributedOptions{}, DistributedOptions{.gradient_as_bucket_view = false},
            DistributedOptions{.num_groups = 2}}) {
        for (const auto& devices : {on_gpu, mixed}) {
          const auto got = train(all, devices, make, options);
          for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_TRUE(bitwise_equal(got[i].cpu(), expected[i])) << "parameter " << i;
          }
        }
      }
    });
  }
}

TEST_F(DeviceGradientViews, AreNotThereWhereTheBackendHasNoUseForThem) {
  seen_.shares = false;
  run(2, [&](const ProcessSet& all) {
    const std::vector<Tensor> params = make_params({kGpu, kCpu, kGpu});
    DistributedOptimizer optimizer(momentum_sgd(params), {}, {.process_set = all});
    for (int step = 0; step < 2; ++step) {
      backward(params, all.rank(), step);
      optimizer.step();
      EXPECT_FALSE(grad_memory(params[0]).defined());
      EXPECT_FALSE(grad_memory(params[2]).defined());
      EXPECT_EQ(grad_memory(params[1]).defined(), step > 0);
    }
  });
  EXPECT_EQ(seen_.placed, 0);
  EXPECT_EQ(seen_.packed, 2 * 2 * 2);
}

TEST_F(DeviceGradientViews, AParameterThatTheJobDoesNotServeIsRefusedByName) {
  const auto refusal = [](const ProcessSet& all, const Device& device) {
    const Tensor fine = Tensor::zeros({2}).requires_grad_();
    const Tensor far = Tensor::zeros({2}, DType::kF32, device).requires_grad_();
    const auto make = [&](const NamedTensors& named) {
      std::vector<Tensor> params;
      for (const auto& [name, param] : named) params.push_back(param);
      DistributedOptimizer(momentum_sgd(params), named, {.process_set = all});
    };
    const std::string message = message_of<UnsupportedError>([&] {
      make({{"fine", fine}, {"far", far}});
    });
    make({{"fine", fine}});  // nothing is left of the first attempt
    allreduce(Tensor::scalar(1), {.name = "all have asked", .process_set = all});
    return message;
  };
  run(2, [&](const ProcessSet& all) {
    EXPECT_THAT(refusal(all, {DeviceKind::kCuda, 1}),
                AllOf(HasSubstr("parameter 'far' lies on CUDA device 1"), HasSubstr("device 0")));
  });
  run_sets(2, [&](const ProcessSet& all) {
    EXPECT_THAT(refusal(all, kGpu),
                AllOf(HasSubstr("parameter 'far'"), HasSubstr("HVD_GPU_OPERATIONS")));
  });
}

}  // namespace
}  // namespace hvd
