#pragma once

#include <memory>

#include "core/runtime/collective.h"

namespace hvd {

// Pinned host memory that is used again: CUDA takes a millisecond to pin some, and waits for the
// device to give it back. Thread-safe.
class PinnedPool {
 public:
  // `device`: which shall reach it.
  explicit PinnedPool(int device);

  // At least `bytes` bytes; back in the pool with the last copy of `owner`, which may outlive it.
  Buffer take(std::size_t bytes);

 private:
  struct State;
  int device_;
  std::shared_ptr<State> state_;
};

}  // namespace hvd
