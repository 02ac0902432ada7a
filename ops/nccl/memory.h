#pragma once

#include <cstddef>
#include <memory>

#include "core/ports/collective.h"
#include "ops/nccl/api.h"
#include "ops/nccl/communicator.h"

namespace hvd::engine {

// Memory that NCCL may register: its own kind where the library has it, else CUDA's. Whole pieces
// of 2 MiB, so that nothing else lies in what is registered. Freed with the last copy of `owner`,
// once the device is idle. Throws PeerLostError when there is not enough.
Buffer allocate_nccl_memory(const NcclApi& api, int device, std::size_t bytes);

// Memory and its registration with one communicator: deregistered, then freed. Outlives the
// communicator, which deregisters what is left when it goes.
class NcclMemory {
 public:
  explicit NcclMemory(Buffer memory) : memory_(std::move(memory)) {}
  ~NcclMemory();
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;

  // Once; the communicator is settled.
  void register_with(const std::shared_ptr<NcclCommunicator>& communicator);
  bool registered() const { return asked_; }
  const Buffer& buffer() const { return memory_; }

 private:
  Buffer memory_;
  std::weak_ptr<NcclCommunicator> communicator_;
  void* handle_ = nullptr;
  bool asked_ = false;
};

}  // namespace hvd::engine
