#include "test/gpu/logic/host_cuda.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "test/gpu/logic/stream_log.h"

// What a record left in a stream.
struct Point {
  std::atomic<bool> done = false;
  bool held = false;  // while HostCuda::stalled
  int number = 0;     // for the log

  bool reached() const { return done && (!held || !hvd::test::host_cuda().stalled); }
};

struct CUstream_st {
  int device = 0;
  std::deque<std::function<bool()>> work;
  bool destroyed = false;
};
struct CUevent_st {
  std::shared_ptr<Point> point;  // null = never recorded
};

namespace hvd::test {
namespace {

// The streams of all devices. What is enqueued in one that was destroyed is still done.
class Streams {
 public:
  cudaStream_t make() {
    const std::lock_guard lock(mutex_);
    streams_.push_front(std::make_unique<CUstream_st>());
    streams_.front()->device = HostCuda::current_device;
    return streams_.front().get();
  }
  void destroy(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    stream->destroyed = true;
    forget();
  }
  void push(cudaStream_t stream, std::function<bool()> work) {
    const std::lock_guard lock(mutex_);
    if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
      work();
      return;
    }
    stream->work.push_back(std::move(work));
    if (host_cuda().mode == HostStreams::kAtOnce) run_all();
  }
  void look() {
    const std::lock_guard lock(mutex_);
    if (host_cuda().mode == HostStreams::kAtOnce) run_all();
    if (host_cuda().mode == HostStreams::kWhenLookedAt) run_one();
  }
  void run() {
    const std::lock_guard lock(mutex_);
    run_all();
  }
  bool idle(int device) {
    const std::lock_guard lock(mutex_);
    run_all();
    for (const auto& stream : streams_) {
      if (stream->device == device && !stream->work.empty()) return false;
    }
    return true;
  }
  // Of tests that are over.
  void drop() {
    const std::lock_guard lock(mutex_);
    std::erase_if(streams_, [](const auto& stream) { return stream->destroyed; });
  }

 private:
  static bool advance(CUstream_st& stream) {
    if (stream.work.empty() || !stream.work.front()()) return false;
    stream.work.pop_front();
    return true;
  }
  void forget() {
    std::erase_if(streams_, [](const auto& s) { return s->destroyed && s->work.empty(); });
  }
  void run_all() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& stream : streams_) {
        while (advance(*stream)) moved = true;
      }
    }
    forget();
  }
  void run_one() {
    std::vector<CUstream_st*> busy;
    for (const auto& stream : streams_) {
      if (!stream->work.empty()) busy.push_back(stream.get());
    }
    std::shuffle(busy.begin(), busy.end(), random_);
    for (CUstream_st* const stream : busy) {
      if (advance(*stream)) break;
    }
    forget();
  }

  std::mutex mutex_;
  std::list<std::unique_ptr<CUstream_st>> streams_;  // the newest first
  std::minstd_rand random_;
};

Streams& streams() {
  static Streams all;
  return all;
}

cudaError_t allocate(void** data, std::size_t bytes) {
  if (host_cuda().memory_error != cudaSuccess) return host_cuda().memory_error;
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

std::mutex pinned_mutex;
std::map<const std::byte*, std::size_t> pinned;

void pin(const void* data, std::size_t bytes) {
  const std::lock_guard lock(pinned_mutex);
  pinned[static_cast<const std::byte*>(data)] = bytes;
}
void unpin(const void* data) {
  const std::lock_guard lock(pinned_mutex);
  pinned.erase(static_cast<const std::byte*>(data));
}
bool is_pinned(const void* data) {
  const std::lock_guard lock(pinned_mutex);
  const auto* const at = static_cast<const std::byte*>(data);
  auto after = pinned.upper_bound(at);
  if (after == pinned.begin()) return false;
  --after;
  return at < after->first + after->second;
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

bool reached(cudaEvent_t event) {
  return event->point == nullptr || event->point->reached();
}

}  // namespace

HostCuda& host_cuda() {
  static HostCuda cuda;
  return cuda;
}

void reset_host_cuda() {
  HostCuda& cuda = host_cuda();
  cuda.mode = HostStreams::kAtOnce;
  cuda.devices = 2;
  cuda.count_error = cudaSuccess;
  cuda.wait_error = cudaSuccess;
  cuda.memory_error = cudaSuccess;
  cuda.stalled = false;
  cuda.current_device = 0;
  streams().drop();
}

void enqueue(cudaStream_t stream, std::function<bool()> work) {
  streams().push(stream, std::move(work));
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
  const cudaError_t code = allocate(data, bytes);
  if (code == cudaSuccess) pin(*data, bytes);
  return code;
}
cudaError_t cudaFree(void* data) {
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
  if (kind == cudaMemcpyHostToDevice && !is_pinned(from)) {
    const auto* first = static_cast<const std::byte*>(from);
    enqueue(stream, [to, away = std::vector(first, first + bytes)] {
      copy(to, away.data(), away.size());
      return true;
    });
    return cudaSuccess;
  }
  enqueue(stream, [to, from, bytes] {
    copy(to, from, bytes);
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = streams().make();
  ++host_cuda().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  streams().destroy(stream);
  --host_cuda().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->point == nullptr) return cudaSuccess;
  log_stream("wait", stream, event->point->number);
  enqueue(stream, [point = event->point] { return point->reached(); });
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
  event->point = std::make_shared<Point>();
  event->point->held = host_cuda().stalled;
  event->point->number = ++host_cuda().points;
  log_stream("record", stream, event->point->number);
  enqueue(stream, [point = event->point] {
    point->done = true;
    return true;
  });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  streams().look();
  return reached(event) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  while (!reached(event)) {
    run_streams();
    std::this_thread::yield();
  }
  return host_cuda().wait_error;
}

}  // extern "C"
