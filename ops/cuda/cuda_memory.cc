#include "ops/cuda/cuda_memory.h"

#include <cuda_runtime_api.h>

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "ops/cuda/arithmetic.h"
#include "ops/cuda/check.h"
#include "ops/cuda/device.h"
#include "ops/cuda/module_memory.h"
#include "ops/cuda/stream.h"

namespace hvd::engine {
namespace {

// A pool of our own that keeps what was freed for the next allocation; null where the device has
// none. It lives as long as the process.
cudaMemPool_t make_pool(int device) {
  int supported = 0;
  check_cuda(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device),
             "cudaDeviceGetAttribute");
  if (supported == 0) return nullptr;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, device};
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all),
             "cudaMemPoolSetAttribute");
  return pool;
}

// What a device is asked for happens on its stream.
struct Queue {
  Queue(int device, DeviceMemory& memory)
      : stream(device),
        freeing(device),
        pool(make_pool(device)),
        arithmetic(make_cuda_arithmetic(device, stream.get(), memory)) {}

  CudaStream stream;
  CudaStream freeing;  // of memory that other streams used: nothing else waits for them
  cudaMemPool_t pool;
  std::unique_ptr<DeviceArithmetic> arithmetic;
};

class Memory final : public DeviceMemory {
 public:
  int devices() const override { return find_cuda_devices().count; }
  std::string describe_devices() const override { return find_cuda_devices().detail; }

  void* allocate(int device, std::size_t bytes) override {
    void* data = nullptr;
    const cudaError_t code = get(device, bytes, queue_of(device).stream.get(), data);
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // it is no failure of the calls that follow
      return nullptr;
    }
    check_cuda(code, "allocation of tensor memory");
    return data;
  }

  // For what is put on `stream` later.
  cudaError_t get(int device, std::size_t bytes, cudaStream_t stream, void*& data) {
    const Queue& queue = queue_of(device);
    const CudaDeviceScope scope(device);
    if (queue.pool == nullptr) return cudaMalloc(&data, bytes);
    return cudaMallocFromPoolAsync(&data, bytes, queue.pool, stream);
  }

  void deallocate(int device, void* data) noexcept override {
    try {
      const Queue& queue = queue_of(device);
      free(queue, data, queue.stream);
    } catch (const Error&) {
      // CUDA is gone, and the memory with it: the process ends.
    }
  }

  // Past what is on `users` too.
  void deallocate(int device, void* data,
                  std::span<const std::shared_ptr<const CudaStream>> users) noexcept {
    try {
      Queue& queue = queue_of(device);
      queue.freeing.wait_for(queue.stream.fence());
      for (const auto& user : users) queue.freeing.wait_for(user->fence());
      free(queue, data, queue.freeing);
    } catch (const Error&) {
      // As above.
    }
  }

  void copy_from_host(int device, void* to, const void* from, std::size_t bytes) override {
    copy(device, to, from, bytes, cudaMemcpyHostToDevice);
    synchronize(device);
  }
  void copy_to_host(int device, void* to, const void* from, std::size_t bytes) override {
    copy(device, to, from, bytes, cudaMemcpyDeviceToHost);
    synchronize(device);
  }
  void copy_between(int to_device, void* to, int from_device, const void* from,
                    std::size_t bytes) override {
    if (to_device != from_device) queue_of(to_device).stream.wait_for(fence(from_device));
    copy(to_device, to, from, bytes, cudaMemcpyDefault);
    if (to_device != from_device) queue_of(from_device).stream.wait_for(fence(to_device));
  }

  void synchronize(int device) override { fence(device).wait(); }
  DeviceArithmetic& arithmetic(int device) override { return *queue_of(device).arithmetic; }
  std::uintptr_t stream(int device) override {
    return reinterpret_cast<std::uintptr_t>(queue_of(device).stream.get());
  }

 private:
  static void free(const Queue& queue, void* data, const CudaStream& stream) {
    const CudaDeviceScope scope(stream.device());
    if (queue.pool != nullptr) {
      cudaFreeAsync(data, stream.get());
    } else {
      cudaFree(data);  // waits for the device
    }
  }

  Fence fence(int device) { return queue_of(device).stream.fence(); }
  void copy(int device, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return;
    const Queue& queue = queue_of(device);
    const CudaDeviceScope scope(device);
    check_cuda(cudaMemcpyAsync(to, from, bytes, kind, queue.stream.get()), "copy of tensor memory");
  }

  Queue& queue_of(int device) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Queue>& queue = queues_[device];
    if (queue == nullptr) {
      const CudaDeviceScope scope(device);
      queue = std::make_unique<Queue>(device, *this);
    }
    return *queue;
  }

  std::mutex mutex_;
  std::map<int, std::unique_ptr<Queue>> queues_;  // entries stay
};

// Never destroyed: tensors of static lifetime may be freed after any destructor of ours.
Memory& memory() {
  static auto* const memory = new Memory;
  return *memory;
}

}  // namespace

DeviceMemory& cuda_memory() {
  return memory();
}

Buffer allocate_in_order(const CudaStream& stream, std::size_t bytes,
                         std::vector<std::shared_ptr<const CudaStream>> users) {
  if (bytes == 0) return {};
  const int device = stream.device();
  void* data = nullptr;
  const std::string what = "allocation of " + std::to_string(bytes) + " bytes";
  check_cuda(memory().get(device, bytes, stream.get(), data), what.c_str());
  return {data, bytes,
          std::shared_ptr<const void>(data, [device, users = std::move(users)](const void* gone) {
            memory().deallocate(device, const_cast<void*>(gone), users);
          })};
}

}  // namespace hvd::engine
