#pragma once

#include <cuda_runtime_api.h>

#include <atomic>

namespace hvd::test {

// host_cuda.cc has the functions of CUDA's runtime that ops/cuda calls, on host memory and at once,
// for tests of what surrounds them: memory of a device is memory of the host, kernels and copies
// are done when they are enqueued. These are its controls; reset_host_cuda() before each test.
struct HostCuda {
  std::atomic<int> devices = 2;
  std::atomic<cudaError_t> count_error = cudaSuccess;  // of cudaGetDeviceCount
  std::atomic<cudaError_t> wait_error = cudaSuccess;   // of cudaEventSynchronize
  std::atomic<cudaError_t> memory_error = cudaSuccess;
  std::atomic<bool> stalled =
      false;  // events recorded from now on are not reached until it is over
  std::atomic<int> current_device = 0;
  std::atomic<int> streams = 0;  // not destroyed
  std::atomic<int> events = 0;   // not destroyed
  std::atomic<int> points = 0;   // recorded so far
};

HostCuda& host_cuda();
void reset_host_cuda();

}  // namespace hvd::test
