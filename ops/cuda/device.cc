#include "ops/cuda/device.h"

#include <cuda_runtime_api.h>

#include <string_view>

#include "ops/cuda/check.h"

namespace hvd::engine {
namespace {

// A failed call also leaves its code behind for cudaGetLastError().
std::string text_of(cudaError_t code) {
  cudaGetLastError();
  std::string text = std::string("no CUDA device: ") + cudaGetErrorString(code);
  int driver = 0;
  if (code == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
      driver != 0) {
    text += ": the driver supports up to CUDA " + cuda_version_text(driver) +
            ", horovod_cpp was built with CUDA " + cuda_version_text(CUDART_VERSION);
  }
  return text;
}

using Allocate = cudaError_t (*)(void**, std::size_t);
using Release = cudaError_t (*)(void*);

Buffer allocate(int device, std::size_t bytes, Allocate get, Release release, const char* call) {
  if (bytes == 0) return {};
  const CudaDeviceScope scope(device);
  void* data = nullptr;
  const std::string what = std::string(call) + " of " + std::to_string(bytes) + " bytes";
  check_cuda(get(&data, bytes), what.c_str());
  return {data, bytes, std::shared_ptr<const void>(data, [release](const void* memory) {
            release(const_cast<void*>(memory));
          })};
}

}  // namespace

CudaDevices find_cuda_devices() {
  CudaDevices found;
  if (const cudaError_t code = cudaGetDeviceCount(&found.count); code != cudaSuccess) {
    return {0, text_of(code)};
  }
  if (found.count == 0) return {0, "no CUDA device: cudaGetDeviceCount counts none"};
  for (int device = 0; device < found.count; ++device) {
    cudaDeviceProp properties{};
    if (const auto code = cudaGetDeviceProperties(&properties, device); code != cudaSuccess) {
      return {0, text_of(code)};
    }
    found.detail += (device == 0 ? "" : ", ") + std::string(properties.name);
  }
  return found;
}

std::string cuda_device_identity(int device) {
  char bus[32] = {};
  check_cuda(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "cudaDeviceGetPCIBusId");
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::string text = std::string(bus) + ", GPU";
  constexpr std::string_view kHex = "0123456789abcdef";
  for (std::size_t i = 0; i < sizeof properties.uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(properties.uuid.bytes[i]);
    text += kHex[byte / 16];
    text += kHex[byte % 16];
  }
  return text;
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

CudaDeviceScope::CudaDeviceScope(int device) {
  check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
}

CudaDeviceScope::~CudaDeviceScope() {
  cudaSetDevice(before_);
}

Buffer allocate_cuda_memory(int device, std::size_t bytes) {
  return allocate(device, bytes, cudaMalloc, cudaFree, "cudaMalloc");
}

Buffer allocate_pinned_memory(int device, std::size_t bytes) {
  return allocate(device, bytes, cudaMallocHost, cudaFreeHost, "cudaMallocHost");
}

}  // namespace hvd::engine
