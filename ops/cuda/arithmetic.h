#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "ops/device/device_memory.h"

namespace hvd::engine {

// Arithmetic on `stream` of `device`; both and `memory`, whose scratch memory it takes, must live
// longer.
std::unique_ptr<DeviceArithmetic> make_cuda_arithmetic(int device, cudaStream_t stream,
                                                       DeviceMemory& memory);

}  // namespace hvd::engine
