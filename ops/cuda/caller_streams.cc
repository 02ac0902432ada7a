#include "ops/cuda/caller_streams.h"

#include <memory>

#include "ops/cuda/check.h"
#include "ops/cuda/device.h"
#include "ops/cuda/module_memory.h"
#include "ops/cuda/stream.h"

namespace hvd::engine {
namespace {

// 1 and 2 are CUDA's own constants for its default streams. 0 depends on how code was compiled; in
// PyTorch it is the legacy one.
cudaStream_t stream_of(std::uintptr_t handle) {
  return handle == 0 ? cudaStreamLegacy : reinterpret_cast<cudaStream_t>(handle);
}

}  // namespace

Fence CallerStreams::record(int device, std::uintptr_t stream) {
  return Fence(std::make_shared<CudaEvent>(device, stream_of(stream)));
}

void CallerStreams::wait(int device, std::uintptr_t stream, const Fence& fence) {
  if (!enqueue_wait(device, stream_of(stream), fence)) fence.wait();
}

// A handle that was destroyed must not be used, and the thread's default stream is another one on
// another thread.
void CallerStreams::take_back(int device, std::uintptr_t to, std::uintptr_t stream) {
  if (stream_of(stream) == cudaStreamLegacy) {
    wait(device, to, record(device, stream));
  } else {
    const CudaDeviceScope scope(device);
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
}

std::uintptr_t CallerStreams::own(int device) {
  return cuda_memory().stream(device);
}

}  // namespace hvd::engine
