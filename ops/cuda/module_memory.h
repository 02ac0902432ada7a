#pragma once

#include "core/runtime/fence.h"
#include "ops/device/device_memory.h"

namespace hvd {

// Memory and arithmetic of CUDA devices for tensors of our own, on a stream for each device.
class CudaMemory : public DeviceMemory {
 public:
  // Past what the device was asked for so far.
  virtual Fence fence(int device) = 0;

 protected:
  ~CudaMemory() = default;
};

// Lives as long as the process.
CudaMemory& cuda_memory();

}  // namespace hvd
