#pragma once

#include <cstddef>
#include <string>

#include "core/ports/collective.h"

namespace hvd::engine {

// What CUDA finds in this process.
struct CudaDevices {
  int count = 0;
  std::string detail;  // what they are called, or CUDA's own text why there are none
};

// Never throws: whatever goes wrong means that there is no device.
CudaDevices find_cuda_devices();

// "0000:3b:00.0, GPU-01234567-89ab-cdef-0123-456789abcdef" of a device that is there: the place on
// the bus and the number it was made with. Parts of one GPU (MIG) differ in the number alone.
// Throws PeerLostError.
std::string cuda_device_identity(int device);

// "13.0" of 13000, as CUDA counts.
std::string cuda_version_text(int version);

// Makes a device the calling thread's current one, until destroyed. Throws PeerLostError.
class CudaDeviceScope {
 public:
  explicit CudaDeviceScope(int device);
  ~CudaDeviceScope();
  CudaDeviceScope(const CudaDeviceScope&) = delete;
  CudaDeviceScope& operator=(const CudaDeviceScope&) = delete;

 private:
  int before_ = 0;
};

// Memory of a device; CUDA aligns it to 256 bytes. Freed with the last copy of `owner`. Throws
// PeerLostError when there is not enough.
Buffer allocate_cuda_memory(int device, std::size_t bytes);

// Host memory that the device can reach while the host goes on.
Buffer allocate_pinned_memory(int device, std::size_t bytes);

}  // namespace hvd::engine
