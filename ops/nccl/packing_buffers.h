#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "core/ports/fence.h"
#include "ops/nccl/launch_queue.h"
#include "ops/nccl/memory.h"

namespace hvd::engine {

// Where batches of one communicator are packed: two buffers in turn, so that one is filled while
// NCCL works on the other. They grow; all ranks take the same sizes in the same order. For one
// thread.
class PackingBuffers {
 public:
  struct Turn {
    std::shared_ptr<NcclMemory> memory;
    // Past the last batch that was here. Whoever takes the turn waits for it on the device, and
    // leaves a fence of its own.
    Fence free;
  };

  PackingBuffers(const NcclApi& api, int device, std::shared_ptr<LaunchQueue> queue)
      : api_(api), device_(device), queue_(std::move(queue)) {}
  ~PackingBuffers();
  PackingBuffers(const PackingBuffers&) = delete;
  PackingBuffers& operator=(const PackingBuffers&) = delete;

  // The next turn, with room for `bytes`; its memory is another one when a later batch needs more.
  // Throws PeerLostError when there is not enough memory.
  std::shared_ptr<Turn> take(std::size_t bytes);

 private:
  const NcclApi& api_;
  int device_;
  std::shared_ptr<LaunchQueue> queue_;
  std::array<std::shared_ptr<Turn>, 2> turns_ = {std::make_shared<Turn>(),
                                                 std::make_shared<Turn>()};
  std::size_t next_ = 0;
};

}  // namespace hvd::engine
