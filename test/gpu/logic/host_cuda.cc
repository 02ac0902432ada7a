#include "test/gpu/logic/host_cuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace hvd::test {

HostCuda& host_cuda() {
  static HostCuda cuda;
  return cuda;
}

}  // namespace hvd::test

using hvd::test::host_cuda;
using hvd::test::HostCuda;

namespace {

// Of all handles of an event, in whichever process.
struct EventState {
  bool held = false;
  std::uint64_t recorded = 0;
  std::uint64_t completed = 0;
};

constexpr std::uint64_t kNewest = ~std::uint64_t{0};

// What a stream does next, once `event` has completed its record number `after`, or the newest one
// there is by then.
struct Task {
  std::function<void()> run;
  std::shared_ptr<EventState> event;
  std::uint64_t after = 0;
};

}  // namespace

struct CUstream_st {
  std::deque<Task> tasks;
};
struct CUevent_st {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
  bool is_imported = false;
};

namespace {

// All streams that are lazy, and memory that is shared.
struct Machine {
  std::mutex mutex;
  std::vector<std::shared_ptr<CUstream_st>> streams;
  std::mt19937 random{1};
  std::map<void*, int> opened;  // how often
};

Machine& machine() {
  static auto* const one = new Machine;
  return *one;
}

bool may_run(const CUstream_st& stream) {
  if (stream.tasks.empty()) return false;
  const auto& [run, event, after] = stream.tasks.front();
  return event == nullptr || event->completed >= (after == kNewest ? event->recorded : after);
}

// One task of a stream drawn from those that can go on; false if none can. Under the mutex.
bool run_one(Machine& all) {
  if (host_cuda().hangs) return false;
  std::vector<CUstream_st*> able;
  for (const auto& stream : all.streams) {
    if (may_run(*stream)) able.push_back(stream.get());
  }
  if (able.empty()) return false;
  auto& tasks = able[all.random() % able.size()]->tasks;
  const Task task = std::move(tasks.front());
  tasks.pop_front();
  if (task.run != nullptr) task.run();
  return true;
}

void run_some() {
  if (!host_cuda().lazy) return;
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  for (auto count = all.random() % 4; count > 0 && run_one(all); --count) {
  }
}

void run_all() {
  if (!host_cuda().lazy) return;
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  while (run_one(all)) {
  }
}

void drop_all() {
  const std::lock_guard lock(machine().mutex);
  for (const auto& stream : machine().streams) stream->tasks.clear();
}

void push(cudaStream_t stream, Task task) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  stream->tasks.push_back(std::move(task));
}

bool is_lazy(cudaStream_t stream) {
  return stream != nullptr && host_cuda().lazy;
}

cudaError_t allocate(void** data, std::size_t bytes) {
  if (host_cuda().memory_error != cudaSuccess) return host_cuda().memory_error;
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

bool reached(cudaEvent_t event) {
  const std::lock_guard lock(machine().mutex);
  const EventState& state = *event->state;
  return state.completed >= state.recorded && (!state.held || !host_cuda().stalled);
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

void hvd::test::reset_host_cuda() {
  drop_all();
  HostCuda& cuda = host_cuda();
  cuda.devices = 2;
  cuda.count_error = cudaSuccess;
  cuda.wait_error = cudaSuccess;
  cuda.memory_error = cudaSuccess;
  cuda.stalled = false;
  cuda.current_device = 0;
  cuda.lazy = false;
  cuda.hangs = false;
  cuda.ipc_export_error = cudaSuccess;
  cuda.ipc_open_error = cudaSuccess;
  cuda.ipc_opens_until_error = 0;
  cuda.freed_while_opened = 0;
}

void hvd::test::enqueue_on_host(cudaStream_t stream, std::function<void()> work) {
  if (!is_lazy(stream)) return work();
  push(stream, {std::move(work), nullptr, 0});
}

using hvd::test::enqueue_on_host;

extern "C" {

const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorInsufficientDriver ? "driver too old" : "text of an error";
}
const char* cudaGetErrorName(cudaError_t) {
  return "cudaErrorOfATest";
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
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
  *device = host_cuda().current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  host_cuda().current_device = device;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return allocate(data, bytes);
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  return allocate(data, bytes);
}
cudaError_t cudaFree(void* data) {
  run_all();
  {
    const std::lock_guard lock(machine().mutex);
    if (machine().opened.contains(data)) ++host_cuda().freed_while_opened;
  }
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  return cudaFree(data);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  run_all();
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  enqueue_on_host(stream, [=] {
    if (bytes != 0) std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  *stream = all.streams.emplace_back(std::make_shared<CUstream_st>()).get();
  ++host_cuda().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  run_all();  // what is enqueued still runs
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.streams, [&](const auto& each) { return each.get() == stream; });
  --host_cuda().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!is_lazy(stream)) return cudaSuccess;
  const std::lock_guard lock(machine().mutex);
  // Which one another process's stream waits for if the event is recorded again is nowhere said.
  const bool newest = event->is_imported && machine().random() % 2 == 0;
  stream->tasks.push_back({nullptr, event->state, newest ? kNewest : event->state->recorded});
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
  const bool lazy = is_lazy(stream);
  const std::lock_guard lock(machine().mutex);
  const auto state = event->state;
  state->held = host_cuda().stalled;
  const std::uint64_t number = ++state->recorded;
  const auto complete = [state, number] { state->completed = number; };
  if (!lazy) {
    complete();
  } else {
    stream->tasks.push_back({complete, nullptr, 0});
  }
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  run_some();
  return reached(event) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  while (!reached(event)) {
    run_some();
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
  const std::lock_guard lock(machine().mutex);
  *memory = get<void>(handle);
  ++machine().opened[*memory];
  ++cuda.ipc_opened;
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  const std::lock_guard lock(machine().mutex);
  const auto opened = machine().opened.find(memory);
  if (opened == machine().opened.end()) return cudaErrorInvalidValue;
  if (--opened->second == 0) machine().opened.erase(opened);
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
