#include "ops/cuda/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "ops/cuda/stream.h"
#include "test/gpu/logic/host_cuda.h"

namespace hvd::engine {
namespace {

using test::host_cuda;
using ::testing::HasSubstr;

class CudaDevice : public ::testing::Test {
 protected:
  void SetUp() override { test::reset_host_cuda(); }
};

TEST_F(CudaDevice, DevicesAreCountedAndNamed) {
  const CudaDevices found = find_cuda_devices();
  EXPECT_EQ(found.count, 2);
  EXPECT_EQ(found.detail, "host memory 0, host memory 1");
}

TEST_F(CudaDevice, AnyErrorMeansNoDevice) {
  host_cuda().count_error = cudaErrorUnknown;
  EXPECT_EQ(find_cuda_devices().count, 0);
  EXPECT_EQ(find_cuda_devices().detail, "no CUDA device: text of an error");
}

TEST_F(CudaDevice, AnOldDriverIsToldWithBothVersions) {
  host_cuda().count_error = cudaErrorInsufficientDriver;
  EXPECT_THAT(find_cuda_devices().detail, HasSubstr("up to CUDA 12.4"));
  EXPECT_THAT(find_cuda_devices().detail,
              HasSubstr("built with CUDA " + cuda_version_text(CUDART_VERSION)));
}

TEST_F(CudaDevice, ItsIdentityIsBusAndNumber) {
  EXPECT_EQ(cuda_device_identity(1), "0000:01:00.0, GPU-00000000-0000-0000-0000-000000000002");
}

TEST_F(CudaDevice, AScopeEndsWhereItBegan) {
  {
    const CudaDeviceScope scope(1);
    EXPECT_EQ(host_cuda().current_device, 1);
  }
  EXPECT_EQ(host_cuda().current_device, 0);
}

TEST_F(CudaDevice, StreamsAndEventsAreGivenBack) {
  const int streams = host_cuda().streams;
  const int events = host_cuda().events;
  {
    CudaStream stream(0);
    const Fence fence = stream.fence();
    EXPECT_TRUE(stream.wait_for(fence));
    EXPECT_FALSE(stream.wait_for(Fence()));
  }
  EXPECT_EQ(host_cuda().streams, streams);
  EXPECT_EQ(host_cuda().events, events);
}

}  // namespace
}  // namespace hvd::engine
