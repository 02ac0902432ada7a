#include "test/gpu/logic/host_cuda.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "test/gpu/logic/host_streams.h"
#include "test/gpu/logic/stream_log.h"

namespace hvd::engine::test {
namespace {

HostStreams& streams() {
  static auto* const all = new HostStreams;
  return *all;
}

thread_local cudaError_t last_error = cudaSuccess;
constexpr int kSpins = 100;  // before a wait sleeps
constexpr std::chrono::microseconds kPause{20};

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace

HostCuda& host_cuda() {
  static auto* const cuda = new HostCuda;  // the thread that is the device outlives all else
  return *cuda;
}

void reset_host_cuda() {
  streams().drop();
  HostCuda& cuda = host_cuda();
  cuda.devices = 2;
  cuda.count_error = cudaSuccess;
  cuda.wait_error = cudaSuccess;
  cuda.memory_error = cudaSuccess;
  cuda.memory_limit = std::size_t{1} << 40;
  cuda.stalled = false;
  cuda.results_stalled = false;
  cuda.current_device = 0;
  cuda.waiting_copies = 0;
  cuda.mallocs = 0;
  cuda.lazy = false;
  cuda.by_hand = false;
  cuda.hangs = false;
  cuda.ipc_export_error = cudaSuccess;
  cuda.ipc_open_error = cudaSuccess;
  cuda.ipc_opens_until_error = 0;
  cuda.freed_while_opened = 0;
  cuda.processes_are_threads = true;
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

int number_of(int device) {
  const std::vector<int>& visible = host_cuda().visible;
  return visible.empty() ? device : visible.at(static_cast<std::size_t>(device));
}

bool may_open_blocks_of(const BlockName& name) {
  return host_cuda().processes_are_threads || name.process != getpid();
}

void seed_streams(unsigned seed) {
  streams().seed(seed);
}

void run_streams() {
  streams().run();
}

}  // namespace hvd::engine::test

using namespace hvd::engine::test;  // NOLINT: these are the functions of CUDA's header

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
  properties->uuid.bytes[15] = static_cast<char>(number_of(device) + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02d:00.0", number_of(device));
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = HostCuda::current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= host_cuda().devices) return cudaErrorInvalidDevice;
  HostCuda::current_device = device;
  return cudaSuccess;
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
  while (!streams().idle(HostCuda::current_device)) std::this_thread::sleep_for(kPause);
  return cudaSuccess;
}
// Host memory that is not pinned may change as soon as this returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  log_stream("copy", stream);
  streams().copies(stream, kind == cudaMemcpyHostToDevice);
  if (kind == cudaMemcpyHostToDevice && !is_pinned(from)) {
    ++host_cuda().waiting_copies;
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

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  auto made = std::make_unique<CUevent_st>();
  made->device = HostCuda::current_device;
  if ((flags & cudaEventInterprocess) != 0) {
    if ((flags & cudaEventDisableTiming) == 0) return cudaErrorInvalidValue;
    made->block = SharedBlock::make(sizeof(HostEvent));
    if (made->block == nullptr) return cudaErrorMemoryAllocation;
    made->state = {made->block, new (made->block->data()) HostEvent};
  }
  *event = made.release();
  ++host_cuda().events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  --host_cuda().events;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (is_of_a_device(stream) && stream->device != kAnyDevice && stream->device != event->device) {
    return cudaErrorInvalidResourceHandle;
  }
  streams().record(event, stream);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (streams().reached(event)) return cudaSuccess;
  last_error = cudaErrorNotReady;
  return last_error;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  for (int looks = 0; !streams().reached(event); ++looks) {
    if (host_cuda().by_hand) run_streams();
    looks < kSpins ? std::this_thread::yield() : std::this_thread::sleep_for(kPause);
  }
  return host_cuda().wait_error;
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  if (event->block == nullptr) return cudaErrorInvalidResourceHandle;
  write_name(event->block->name(), *handle);
  return cudaSuccess;
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  const BlockName name = read_name(handle);
  if (!may_open_blocks_of(name)) return cudaErrorDeviceUninitialized;
  std::shared_ptr<SharedBlock> block = SharedBlock::open(name);
  if (block == nullptr) return cudaErrorInvalidResourceHandle;
  *event = new CUevent_st;
  (*event)->state = {block, reinterpret_cast<HostEvent*>(block->data())};
  (*event)->block = std::move(block);
  (*event)->is_imported = true;
  (*event)->device = HostCuda::current_device;
  ++host_cuda().events;
  return cudaSuccess;
}

}  // extern "C"
