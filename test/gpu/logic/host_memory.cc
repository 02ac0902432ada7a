// Memory of host_cuda.cc's devices. What cudaMalloc() gives may be opened by other processes.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "test/gpu/logic/host_cuda.h"
#include "test/gpu/logic/shared_block.h"

namespace hvd::engine::test {
namespace {

using Name = std::tuple<pid_t, int, ino_t>;

struct Opened {
  std::unique_ptr<SharedBlock> block;
  int times = 0;
};

struct Memory {
  std::mutex mutex;
  std::map<const std::byte*, std::size_t> pinned;
  std::map<const std::byte*, std::pair<std::unique_ptr<SharedBlock>, int>>
      device;  // and its number
  std::map<Name, Opened> opened;
};

Memory& memory() {
  static auto* const all = new Memory;
  return *all;
}

// Whichever of `blocks` has this byte in it.
template <typename Blocks, typename Bytes>
auto find_around(Blocks& blocks, const void* data, const Bytes& bytes_of) {
  const auto* const at = static_cast<const std::byte*>(data);
  auto found = blocks.upper_bound(at);
  if (found == blocks.begin()) return blocks.end();
  --found;
  return at < found->first + bytes_of(found->second) ? found : blocks.end();
}

Name name_of(const BlockName& name) {
  return {name.process, name.file, name.number};
}

// All of this process, which is alone on its GPUs here.
std::size_t allocated() {
  std::size_t bytes = 0;
  for (const auto& [data, entry] : memory().device) bytes += entry.first->bytes();
  return bytes;
}

// Waits as CUDA does, for all that the device has to do.
void wait_before_free(int device) {
  const int before = std::exchange(HostCuda::current_device, device);
  cudaDeviceSynchronize();
  HostCuda::current_device = before;
}

}  // namespace

bool is_pinned(const void* data) {
  const std::lock_guard lock(memory().mutex);
  auto& pinned = memory().pinned;
  return find_around(pinned, data, [](std::size_t bytes) { return bytes; }) != pinned.end();
}

void* allocate_on_heap(std::size_t bytes) {
  return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
}

}  // namespace hvd::engine::test

using namespace hvd::engine::test;  // NOLINT: these are the functions of CUDA's header

extern "C" {

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  ++host_cuda().mallocs;
  if (host_cuda().memory_error != cudaSuccess) return host_cuda().memory_error;
  const std::lock_guard lock(memory().mutex);
  if (allocated() + bytes > host_cuda().memory_limit) return cudaErrorMemoryAllocation;
  auto block = SharedBlock::make(bytes);
  if (block == nullptr) return cudaErrorMemoryAllocation;
  *data = block->data();
  memory().device[static_cast<std::byte*>(*data)] = {std::move(block), HostCuda::current_device};
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  ++host_cuda().mallocs;
  if (host_cuda().memory_error != cudaSuccess) return host_cuda().memory_error;
  *data = allocate_on_heap(bytes);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  const std::lock_guard lock(memory().mutex);
  memory().pinned[static_cast<std::byte*>(*data)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  std::unique_lock lock(memory().mutex);
  const auto found = memory().device.find(static_cast<std::byte*>(data));
  if (found == memory().device.end()) return cudaErrorInvalidValue;
  const auto [block, device] = std::move(found->second);
  memory().device.erase(found);
  lock.unlock();
  wait_before_free(device);
  if (block->users() != 0) {
    ++host_cuda().freed_while_opened;
    if (host_cuda().runs_by_itself) {
      std::fputs("CUDA on host: memory was freed while another process had it open\n", stderr);
    }
  }
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  wait_before_free(HostCuda::current_device);
  {
    const std::lock_guard lock(memory().mutex);
    memory().pinned.erase(static_cast<std::byte*>(data));
  }
  std::free(data);
  return cudaSuccess;
}

// Of all that was allocated together with `data`.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* data) {
  if (host_cuda().ipc_export_error != cudaSuccess) return host_cuda().ipc_export_error;
  const std::lock_guard lock(memory().mutex);
  auto& device = memory().device;
  const auto found =
      find_around(device, data, [](const auto& entry) { return entry.first->bytes(); });
  if (found == device.end()) return cudaErrorInvalidValue;
  write_name(found->second.first->name(), *handle);
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t handle, unsigned flags) {
  HostCuda& cuda = host_cuda();
  if (cuda.ipc_open_error != cudaSuccess && cuda.ipc_opens_until_error-- <= 0) {
    return cuda.ipc_open_error;
  }
  const BlockName name = read_name(handle);
  if (flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
  if (!may_open_blocks_of(name)) return cudaErrorDeviceUninitialized;
  const std::lock_guard lock(memory().mutex);
  Opened& opened = memory().opened[name_of(name)];
  if (opened.block == nullptr) opened.block = SharedBlock::open(name);
  if (opened.block == nullptr) {
    memory().opened.erase(name_of(name));
    return cudaErrorInvalidResourceHandle;
  }
  ++opened.times;
  ++cuda.ipc_opened;
  *data = opened.block->data();
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* data) {
  const std::lock_guard lock(memory().mutex);
  auto& all = memory().opened;
  for (auto each = all.begin(); each != all.end(); ++each) {
    if (each->second.block->data() != data) continue;
    --host_cuda().ipc_opened;
    if (--each->second.times == 0) all.erase(each);
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

}  // extern "C"
