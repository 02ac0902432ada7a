#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/collectives/broadcast.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/distributed/session/session.h"
#include "horovod_cpp/optim/optimizers.h"

// A job of one rank whose tensors are on a device; test/gpu/python has those of several.
namespace hvd {
namespace {

const Device kGpu{DeviceKind::kCuda, 0};

class DeviceSession : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("HVD_GPU_OPERATIONS", "host", 1);
    init();
  }
  void TearDown() override {
    shutdown();
    unsetenv("HVD_GPU_OPERATIONS");
  }
};

TEST_F(DeviceSession, CollectivesGiveTensorsOfTheDevice) {
  const Tensor x = Tensor::arange(6, DType::kF32).reshape({3, 2}).cuda();
  for (const Tensor& result :
       {allreduce(x), allgather(x), broadcast(x, 0), reducescatter(x), alltoall(x).output}) {
    EXPECT_EQ(result.device(), kGpu);
    EXPECT_TRUE(bitwise_equal(result, x));
    EXPECT_EQ(sum(result * 2.0).item(), 30.0);
  }
  Tensor twice = x + x;
  allreduce_(twice, {.op = ReduceOp::kSum, .prescale_factor = 0.5});
  EXPECT_TRUE(bitwise_equal(twice, x));
}

TEST_F(DeviceSession, ADistributedOptimizerUpdatesThere) {
  Tensor there = Tensor::full({5}, 2, DType::kF32, kGpu).requires_grad_();
  auto sgd = std::make_shared<optim::SGD>(std::vector<Tensor>{there},
                                          optim::SGDOptions{.lr = 0.25, .momentum = 0.5});
  DistributedOptimizer optimizer(sgd, {{"there", there}});
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    sum(square(there)).backward();
    optimizer.step();
  }
  EXPECT_EQ(there.to_vector(), (std::vector<double>(5, 0.0)));
}

TEST(DeviceSessionWithoutGpus, RefusesWithTheSettingThatIsMissing) {
  init();
  try {
    allreduce(Tensor::ones({2}).cuda(), {.name = "x"});
    ADD_FAILURE() << "was not refused";
  } catch (const UnsupportedError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("HVD_GPU_OPERATIONS"));
  }
  shutdown();
}

}  // namespace
}  // namespace hvd
