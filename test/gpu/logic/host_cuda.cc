#include "test/gpu/logic/host_cuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "test/gpu/logic/host_streams.h"
#include "test/gpu/logic/stream_log.h"

namespace hvd::test {
namespace {

HostStreams& streams() {
  static auto* const all = new HostStreams;
  return *all;
}

thread_local cudaError_t last_error = cudaSuccess;

std::mutex memory_mutex;
std::map<const std::byte*, std::size_t> pinned;
std::map<void*, int> opened;  // from other processes, how often

void pin(const void* data, std::size_t bytes) {
  const std::lock_guard lock(memory_mutex);
  pinned[static_cast<const std::byte*>(data)] = bytes;
}
void unpin(const void* data) {
  const std::lock_guard lock(memory_mutex);
  pinned.erase(static_cast<const std::byte*>(data));
}
bool is_pinned(const void* data) {
  const std::lock_guard lock(memory_mutex);
  const auto* const at = static_cast<const std::byte*>(data);
  auto after = pinned.upper_bound(at);
  if (after == pinned.begin()) return false;
  --after;
  return at < after->first + after->second;
}

cudaError_t allocate(void** data, std::size_t bytes) {
  if (host_cuda().memory_error != cudaSuccess) return host_cuda().memory_error;
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

// A handle's bytes are those of a pointer.
template <typename Handle, typename T>
void put(Handle& handle, T* pointer) {
  static_assert(sizeof pointer <= sizeof handle);
  std::memcpy(&handle, &pointer, sizeof pointer);
}
template <typename T, typename Handle>
T* get(const Handle& handle) {
  T* pointer = nullptr;
  std::memcpy(&pointer, &handle, sizeof pointer);
  return pointer;
}

}  // namespace

HostCuda& host_cuda() {
  static HostCuda cuda;
  return cuda;
}

void reset_host_cuda() {
  streams().drop();
  HostCuda& cuda = host_cuda();
  cuda.devices = 2;
  cuda.count_error = cudaSuccess;
  cuda.wait_error = cudaSuccess;
  cuda.memory_error = cudaSuccess;
  cuda.stalled = false;
  cuda.results_stalled = false;
  cuda.current_device = 0;
  cuda.lazy = false;
  cuda.by_hand = false;
  cuda.hangs = false;
  cuda.ipc_export_error = cudaSuccess;
  cuda.ipc_open_error = cudaSuccess;
  cuda.ipc_opens_until_error = 0;
  cuda.freed_while_opened = 0;
}

void enqueue(cudaStream_t stream, std::function<bool()> work) {
  streams().push(stream, std::move(work));
}

void enqueue_on_host(cudaStream_t stream, std::function<void()> work) {
  enqueue(stream, [work = std::move(work)] {
    work();
    return true;
  });
}

void run_streams() {
  streams().run();
}

}  // namespace hvd::test

using namespace hvd::test;  // NOLINT: these are the functions of CUDA's header

extern "C" {

const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorInsufficientDriver ? "driver too old" : "text of an error";
}
const char* cudaGetErrorName(cudaError_t) {
  return "cudaErrorOfATest";
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 12040;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = host_cuda().devices;
  return host_cuda().count_error;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  std::snprintf(properties->name, sizeof properties->name, "host memory %d", device);
  properties->uuid.bytes[15] = static_cast<char>(device + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02d:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = HostCuda::current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  HostCuda::current_device = device;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return allocate(data, bytes);
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  const cudaError_t code = allocate(data, bytes);
  if (code == cudaSuccess) pin(*data, bytes);
  return code;
}
cudaError_t cudaFree(void* data) {
  run_streams();
  {
    const std::lock_guard lock(memory_mutex);
    if (opened.contains(data)) ++host_cuda().freed_while_opened;
  }
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  unpin(data);
  return cudaFree(data);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  copy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  while (!streams().idle(HostCuda::current_device)) std::this_thread::yield();
  return cudaSuccess;
}
// Host memory that is not pinned may change as soon as this returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  log_stream("copy", stream);
  streams().copies(stream, kind == cudaMemcpyHostToDevice);
  if (kind == cudaMemcpyHostToDevice && !is_pinned(from)) {
    const auto* first = static_cast<const std::byte*>(from);
    enqueue_on_host(stream, [to, away = std::vector(first, first + bytes)] {
      copy(to, away.data(), away.size());
    });
  } else {
    enqueue_on_host(stream, [=] { copy(to, from, bytes); });
  }
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = streams().make(HostCuda::current_device);
  ++host_cuda().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  streams().destroy(stream);
  --host_cuda().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  streams().wait(stream, event);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  ++host_cuda().events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  --host_cuda().events;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  streams().record(event, stream);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (streams().reached(event)) return cudaSuccess;
  last_error = cudaErrorNotReady;
  return last_error;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  while (!streams().reached(event)) {
    if (host_cuda().by_hand) run_streams();
    std::this_thread::yield();
  }
  return host_cuda().wait_error;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  put(*handle, memory);
  return host_cuda().ipc_export_error;
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  HostCuda& cuda = host_cuda();
  if (cuda.ipc_open_error != cudaSuccess && cuda.ipc_opens_until_error-- <= 0) {
    return cuda.ipc_open_error;
  }
  const std::lock_guard lock(memory_mutex);
  *memory = get<void>(handle);
  ++opened[*memory];
  ++cuda.ipc_opened;
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  const std::lock_guard lock(memory_mutex);
  const auto found = opened.find(memory);
  if (found == opened.end()) return cudaErrorInvalidValue;
  if (--found->second == 0) opened.erase(found);
  --host_cuda().ipc_opened;
  return cudaSuccess;
}
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  put(*handle, event);
  return cudaSuccess;
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  *event = new CUevent_st{get<CUevent_st>(handle)->state, true};
  ++host_cuda().events;
  return cudaSuccess;
}

}  // extern "C"
