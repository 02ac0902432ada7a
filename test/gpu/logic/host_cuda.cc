#include "test/gpu/logic/host_cuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "test/gpu/logic/stream_log.h"

namespace hvd::test {

HostCuda& host_cuda() {
  static HostCuda cuda;
  return cuda;
}

void reset_host_cuda() {
  HostCuda& cuda = host_cuda();
  cuda.devices = 2;
  cuda.count_error = cudaSuccess;
  cuda.wait_error = cudaSuccess;
  cuda.memory_error = cudaSuccess;
  cuda.stalled = false;
  cuda.current_device = 0;
}

}  // namespace hvd::test

using hvd::test::host_cuda;

struct CUstream_st {};
struct CUevent_st {
  bool held = false;
  int number = 0;  // of its last point, for the log
};

namespace {

cudaError_t allocate(void** data, std::size_t bytes) {
  if (host_cuda().memory_error != cudaSuccess) return host_cuda().memory_error;
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

bool reached(cudaEvent_t event) {
  return !event->held || !host_cuda().stalled;
}

}  // namespace

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
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  hvd::test::log_stream("copy", stream);
  if (bytes != 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  ++host_cuda().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  --host_cuda().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  hvd::test::log_stream("wait", stream, event->number);
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
  event->held = host_cuda().stalled;
  event->number = ++host_cuda().points;
  hvd::test::log_stream("record", stream, event->number);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return reached(event) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  while (!reached(event)) std::this_thread::yield();
  return host_cuda().wait_error;
}

}  // extern "C"
