#pragma once

#include <memory>

#include "core/runtime/collective.h"
#include "ops/cuda/device.h"

namespace hvd {

// Memory of CUDA's that is used again: to get and to free some takes long, and freeing waits for
// the device. Thread-safe.
class CudaPool {
 public:
  using Allocate = Buffer (*)(int device, std::size_t bytes);

  CudaPool(int device, Allocate allocate);

  // At least `bytes` bytes; back in the pool with the last copy of `owner`, which may outlive it.
  Buffer take(std::size_t bytes);

 private:
  struct State;
  int device_;
  Allocate allocate_;
  std::shared_ptr<State> state_;
};

// Pinned host memory, which `device` reaches.
class PinnedPool : public CudaPool {
 public:
  explicit PinnedPool(int device) : CudaPool(device, allocate_pinned_memory) {}
};

}  // namespace hvd
