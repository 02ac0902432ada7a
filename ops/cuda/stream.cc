#include "ops/cuda/stream.h"

#include "ops/cuda/check.h"
#include "ops/cuda/device.h"

namespace hvd::engine {

CudaEvent::CudaEvent(int device, cudaStream_t stream) {
  const CudaDeviceScope scope(device);
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync),
             "cudaEventCreateWithFlags");
  if (const cudaError_t code = cudaEventRecord(event_, stream); code != cudaSuccess) {
    cudaEventDestroy(event_);
    check_cuda(code, "cudaEventRecord");
  }
}

CudaEvent::~CudaEvent() {
  cudaEventDestroy(event_);
}

bool CudaEvent::reached() {
  if (cudaEventQuery(event_) != cudaErrorNotReady) return true;
  cudaGetLastError();  // else the next launch would seem to have failed
  return false;
}

void CudaEvent::wait() {
  check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

CudaStream::CudaStream(int device) : device_(device) {
  const CudaDeviceScope scope(device);
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
}

CudaStream::~CudaStream() {
  cudaStreamDestroy(stream_);
}

Fence CudaStream::fence() const {
  return Fence(std::make_shared<CudaEvent>(device_, stream_));
}

void CudaStream::write(const void* from, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  const CudaDeviceScope scope(device_);
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
}

bool enqueue_wait(int device, cudaStream_t stream, const Fence& ready) {
  const auto event = std::dynamic_pointer_cast<CudaEvent>(ready.state());
  if (event == nullptr) return false;
  const CudaDeviceScope scope(device);
  check_cuda(cudaStreamWaitEvent(stream, event->get(), 0), "cudaStreamWaitEvent");
  return true;
}

}  // namespace hvd::engine
