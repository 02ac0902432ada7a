#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>

namespace hvd::test {

// host_cuda.cc has the functions of CUDA's runtime that ops/cuda calls, on host memory, for tests
// of what surrounds them: memory of a device is memory of the host, kernels and copies are done
// when they are enqueued. Unless they are `lazy`: then streams are queues, and whoever asks for an
// event runs some of the work that may run by now, on streams drawn at random, so that nothing but
// events keeps the order between streams. Processes are threads here. These are the controls;
// reset_host_cuda() before each test.
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
  std::atomic<bool> lazy = false;
  std::atomic<bool> hangs = false;                          // lazy streams run nothing
  std::atomic<cudaError_t> ipc_export_error = cudaSuccess;  // of cudaIpcGetMemHandle
  std::atomic<cudaError_t> ipc_open_error = cudaSuccess;    // of cudaIpcOpenMemHandle
  std::atomic<int> ipc_opens_until_error = 0;               // that succeed before
  std::atomic<int> ipc_opened = 0;                          // not closed
  std::atomic<int> freed_while_opened = 0;                  // cudaFree of opened memory
};

HostCuda& host_cuda();
void reset_host_cuda();

// What a kernel does, on `stream`.
void enqueue_on_host(cudaStream_t stream, std::function<void()> work);

}  // namespace hvd::test
