// A job whose GPU does not finish its work.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/runtime/runtime.h"
#include "ops/cuda/staged_collective.h"
#include "ops/self/self_backend.h"
#include "test/core/runtime/submissions.h"
#include "test/gpu/logic/host_cuda.h"

namespace hvd::engine {
namespace {

using test::host_cuda;
using ::testing::HasSubstr;

// HVD_GPU_OPERATIONS=host at one rank.
std::unique_ptr<Runtime> staged_rank(Duration warning, Duration limit) {
  Config config;
  config.stall_warning = warning;
  config.stall_limit = limit;
  std::vector<std::unique_ptr<Collective>> collectives;
  collectives.push_back(std::make_unique<SelfCollective>());
  collectives.push_back(
      std::make_unique<StagedCollective>(0, std::make_unique<SelfCollective>(), 0, 1));
  return std::make_unique<Runtime>(std::make_unique<SelfControlPlane>("here"),
                                   std::move(collectives), config);
}

TEST(HungGpu, IsWarnedOfAndGivenUpAndLeftBehind) {
  test::reset_host_cuda();
  const auto values = test::shared<float>({1, 2});
  testing::internal::CaptureStderr();
  {
    const auto rank = staged_rank(std::chrono::milliseconds(50), std::chrono::seconds(1));
    host_cuda().hangs = true;
    const Handle handle =
        rank->submit(test::allreduce("weights", values, ReduceOp::kSum, DeviceKind::kCuda));
    std::string error;
    try {
      handle.wait();
    } catch (const StalledError& stalled) {
      error = stalled.what();
    }
    EXPECT_THAT(error, HasSubstr("stalled, giving up: allreduce \"weights\" on CUDA device 0"));
    rank->shutdown();
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("stalled: allreduce \"weights\" on CUDA device 0, submitted "));
  host_cuda().hangs = false;
  test::run_streams();
}

}  // namespace
}  // namespace hvd::engine
