#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>

namespace hvd::test {

// When the work of streams is done.
enum class HostStreams {
  kAtOnce,        // when it is enqueued, or as soon as what its stream waits for is there
  kWhenLookedAt,  // each look at an event does one piece of work, of a stream taken at random
  kByHand,        // by run_streams(), and when somebody waits
};

// host_cuda.cc has the functions of CUDA's runtime that ops/cuda calls, on host memory, for tests
// of what surrounds them: memory of a device is memory of the host, kernels and copies are
// functions in the queue of a stream. These are its controls; reset_host_cuda() before each test.
struct HostCuda {
  std::atomic<HostStreams> mode = HostStreams::kAtOnce;
  std::atomic<int> devices = 2;
  std::atomic<cudaError_t> count_error = cudaSuccess;  // of cudaGetDeviceCount
  std::atomic<cudaError_t> wait_error = cudaSuccess;   // of cudaEventSynchronize
  std::atomic<cudaError_t> memory_error = cudaSuccess;
  std::atomic<bool> stalled =
      false;  // events recorded from now on are not reached until it is over
  inline static thread_local int current_device = 0;
  std::atomic<int> streams = 0;  // not destroyed
  std::atomic<int> events = 0;   // not destroyed
  std::atomic<int> points = 0;   // recorded so far
};

HostCuda& host_cuda();
void reset_host_cuda();

// Puts work into a stream: tried until it returns true, while what is behind it waits. It must not
// call CUDA. Any thread.
void enqueue(cudaStream_t stream, std::function<bool()> work);
// Does all that can be done, of the newest stream first. Any thread.
void run_streams();

}  // namespace hvd::test
