#include "ops/nccl/memory.h"

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "ops/cuda/device.h"

namespace hvd::engine {
namespace {

constexpr std::size_t kPiece = std::size_t{2} << 20;  // bytes; what CUDA maps at a time

// Unlike cudaFree() this does not wait for kernels that still use the memory.
void free_when_idle(const NcclApi& api, int device, void* data) noexcept {
  int before = 0;
  cudaGetDevice(&before);
  cudaSetDevice(device);
  cudaDeviceSynchronize();
  api.mem_free(data);
  cudaSetDevice(before);
}

}  // namespace

Buffer allocate_nccl_memory(const NcclApi& api, int device, std::size_t bytes) {
  bytes = (bytes + kPiece - 1) / kPiece * kPiece;
  if (!api.has_registration()) return allocate_cuda_memory(device, bytes);
  if (bytes == 0) return {};
  const CudaDeviceScope scope(device);
  void* data = nullptr;
  const std::string what = "ncclMemAlloc of " + std::to_string(bytes) + " bytes";
  check_nccl(api, api.mem_alloc(&data, bytes), what.c_str());
  return {data, bytes, std::shared_ptr<const void>(data, [&api, device](const void* memory) {
            free_when_idle(api, device, const_cast<void*>(memory));
          })};
}

NcclMemory::~NcclMemory() {
  if (handle_ == nullptr) return;
  if (const auto communicator = communicator_.lock()) {
    communicator->deregister(handle_, std::move(memory_));
  }
}

void NcclMemory::register_with(const std::shared_ptr<NcclCommunicator>& communicator) {
  asked_ = true;
  communicator_ = communicator;
  handle_ = communicator->register_memory(memory_);
}

}  // namespace hvd::engine
