#pragma once

#include "ops/device/device_memory.h"

namespace hvd::engine {

// Memory and arithmetic of CUDA devices for tensors of our own, on a stream for each device. Lives
// as long as the process.
DeviceMemory& cuda_memory();

}  // namespace hvd::engine
