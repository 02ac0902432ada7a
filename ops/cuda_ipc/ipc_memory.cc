#include "ops/cuda_ipc/ipc_memory.h"

#include "ops/cuda/check.h"
#include "ops/cuda/device.h"

namespace hvd::engine {
namespace {

// CUDA shares whole blocks of this size, so a segment shall have them for itself.
constexpr std::size_t kBlock = std::size_t{2} << 20;

std::size_t whole_blocks(std::size_t bytes) {
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

}  // namespace

IpcSegment::IpcSegment(int device, std::size_t bytes)
    : device_(device), memory_(allocate_cuda_memory(device, whole_blocks(bytes))) {
  try {
    export_all();
  } catch (...) {
    destroy_events();
    throw;
  }
}

void IpcSegment::export_all() {
  const CudaDeviceScope scope(device_);
  check_cuda(cudaIpcGetMemHandle(&handles_.memory, memory_.data), "cudaIpcGetMemHandle");
  for (std::size_t i = 0; i < kIpcEvents; ++i) {
    check_cuda(
        cudaEventCreateWithFlags(&events_[i], cudaEventDisableTiming | cudaEventInterprocess),
        "cudaEventCreateWithFlags");
    check_cuda(cudaIpcGetEventHandle(&handles_.events[i], events_[i]), "cudaIpcGetEventHandle");
  }
}

IpcSegment::~IpcSegment() {
  destroy_events();
}

void IpcSegment::destroy_events() noexcept {
  for (const cudaEvent_t event : events_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
}

void IpcSegment::record(std::uint64_t number, cudaStream_t stream) {
  const CudaDeviceScope scope(device_);
  check_cuda(cudaEventRecord(events_[number % kIpcEvents], stream), "cudaEventRecord");
}

bool IpcSegment::reached(std::uint64_t number) const {
  const cudaError_t code = cudaEventQuery(events_[number % kIpcEvents]);
  if (code == cudaErrorNotReady) {
    cudaGetLastError();  // else the next launch would seem to have failed
    return false;
  }
  check_cuda(code, "cudaEventQuery");
  return true;
}

IpcPeer::IpcPeer(int device, const IpcHandles& handles) : device_(device) {
  const CudaDeviceScope scope(device);
  try {
    check_cuda(cudaIpcOpenMemHandle(&data_, handles.memory, cudaIpcMemLazyEnablePeerAccess),
               "cudaIpcOpenMemHandle");
    for (std::size_t i = 0; i < kIpcEvents; ++i) {
      check_cuda(cudaIpcOpenEventHandle(&events_[i], handles.events[i]), "cudaIpcOpenEventHandle");
    }
  } catch (...) {
    close();
    throw;
  }
}

IpcPeer::~IpcPeer() {
  try {
    const CudaDeviceScope scope(device_);
    close();
  } catch (...) {  // the device failed: nothing is left to close
  }
}

void IpcPeer::close() noexcept {
  for (const cudaEvent_t event : events_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (data_ != nullptr) cudaIpcCloseMemHandle(data_);
}

void IpcPeer::wait_for(std::uint64_t number, cudaStream_t stream) {
  const CudaDeviceScope scope(device_);
  check_cuda(cudaStreamWaitEvent(stream, events_[number % kIpcEvents], 0), "cudaStreamWaitEvent");
}

}  // namespace hvd::engine
