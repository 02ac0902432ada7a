#pragma once

#include "ops/cuda/module_streams.h"

namespace hvd::engine {

// Its own stream is that of cuda_memory(): what other libraries hand over comes before what tensors
// of ours are asked for later.
class CallerStreams final : public CudaStreams {
 public:
  Fence record(int device, std::uintptr_t stream) override;
  void wait(int device, std::uintptr_t stream, const Fence& fence) override;
  void take_back(int device, std::uintptr_t to, std::uintptr_t stream) override;
  std::uintptr_t own(int device) override;
};

}  // namespace hvd::engine
