#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <vector>

#include "test/gpu/logic/shared_block.h"

namespace hvd::engine::test {

// host_cuda.cc has the functions of CUDA's runtime that ops/cuda calls, on host memory, for tests
// of what surrounds them: memory of a device is memory of the host, kernels and copies are
// functions in the queue of a stream (host_streams.h). They are done when they are enqueued, or as
// soon as what their stream waits for is there. Unless they are `lazy`: then whoever asks for an
// event runs some of the work that may run by now, on streams drawn at random, so that nothing but
// events keeps the order between streams. Or `by_hand`: then run_streams() does, and who waits.
// Programs that open the module over them have a thread that is the device (`runs_by_itself`), and
// settings in their environment (host_settings.cc); other processes open what is exported. Tests
// that link these files have no such thread, and their processes may be threads. These are the
// controls; reset_host_cuda() before each test.
struct HostCuda {
  std::atomic<int> devices = 2;
  std::vector<int> visible;  // their numbers in the machine; empty = 0, 1, ...
  std::atomic<cudaError_t> count_error = cudaSuccess;  // of cudaGetDeviceCount
  std::atomic<cudaError_t> wait_error = cudaSuccess;   // of cudaEventSynchronize
  std::atomic<cudaError_t> memory_error = cudaSuccess;
  std::atomic<std::size_t> memory_limit = std::size_t{1} << 40;  // bytes, outside pools
  std::atomic<bool> stalled =
      false;  // events recorded from now on are not reached until it is over
  std::atomic<int> stalls_ended = 0;
  std::atomic<bool> results_stalled = false;  // the same, of those right behind copies to a device
  inline static thread_local int current_device = 0;
  std::atomic<int> streams = 0;         // not destroyed
  std::atomic<int> events = 0;          // not destroyed
  std::atomic<int> points = 0;          // recorded so far
  std::atomic<int> mallocs = 0;         // calls of cudaMalloc and cudaMallocHost so far
  std::atomic<int> in_pool = 0;         // allocations of memory pools that were not freed
  std::atomic<int> waiting_copies = 0;  // for which CUDA may have waited: not from pinned memory
  std::atomic<bool> runs_by_itself = false;
  std::atomic<bool> processes_are_threads = false;
  std::atomic<bool> lazy = false;
  std::atomic<bool> by_hand = false;
  std::atomic<bool> hangs = false;                          // streams do nothing
  std::atomic<cudaError_t> ipc_export_error = cudaSuccess;  // of cudaIpcGetMemHandle
  std::atomic<cudaError_t> ipc_open_error = cudaSuccess;    // of cudaIpcOpenMemHandle
  std::atomic<int> ipc_opens_until_error = 0;               // that succeed before
  std::atomic<int> ipc_opened = 0;                          // not closed
  std::atomic<int> freed_while_opened = 0;                  // cudaFree of opened memory
};

HostCuda& host_cuda();
void reset_host_cuda();

// Puts work into a stream: tried until it returns true, while what is behind it waits. It must not
// call CUDA. Any thread.
void enqueue(cudaStream_t stream, std::function<bool()> work);
// What a kernel does, on `stream`.
void enqueue_on_host(cudaStream_t stream, std::function<void()> work);
// Does all that can be done, of the newest stream first. Any thread.
void run_streams();
// What `lazy` draws from now on.
void seed_streams(unsigned seed);

// For the files of CUDA on the host.
int number_of(int device);  // in the machine
bool is_pinned(const void* data);
void* allocate_on_heap(std::size_t bytes);
// CUDA refuses to open in a process what it exported.
bool may_open_blocks_of(const BlockName& name);

}  // namespace hvd::engine::test
