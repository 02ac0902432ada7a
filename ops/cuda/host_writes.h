#pragma once

#include <cstddef>
#include <deque>

#include "core/ports/fence.h"
#include "ops/cuda/pinned_pool.h"
#include "ops/cuda/stream.h"

namespace hvd::engine {

// Copies host memory to a device by way of pinned memory. Other host memory is copied by CUDA while
// the caller waits, for what is under way too. Used by one thread, which never waits.
class HostWrites {
 public:
  explicit HostWrites(int device) : pinned_(device) {}
  ~HostWrites();
  HostWrites(const HostWrites&) = delete;
  HostWrites& operator=(const HostWrites&) = delete;

  // On `stream`; `from` may change as soon as this returns. Throws PeerLostError when there is not
  // enough pinned memory.
  void write(CudaStream& stream, const void* from, void* to, std::size_t bytes);

 private:
  struct UnderWay {
    Buffer memory;
    Fence passed;
  };

  PinnedPool pinned_;
  std::deque<UnderWay> under_way_;
};

}  // namespace hvd::engine
