#pragma once

#include <cstddef>

#include "core/ports/collective.h"

namespace hvd::engine {

// Pinned host memory that a device reaches, used again: to get some takes long, and to free some
// waits for the device, which may hang. So what was taken once stays until the process ends; all
// pools of a device share it. Thread-safe.
class PinnedPool {
 public:
  explicit PinnedPool(int device);

  // At least `bytes` bytes; back in the pool with the last copy of `owner`. Throws PeerLostError
  // when there is not enough.
  Buffer take(std::size_t bytes);

 private:
  class State;
  State& state_;
};

}  // namespace hvd::engine
