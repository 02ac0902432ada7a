#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/ports/collective.h"
#include "ops/host/host_memory.h"
#include "ops/nccl/launch_queue.h"
#include "ops/nccl/memory.h"

namespace hvd::engine {

// Makes an arena: the ranks agree on whether all of them have the memory. If so each registers its
// own and fills `arena` and `made` in; else there is none.
class MakeNcclArena final : public Operation {
 public:
  struct Steps {
    // Makes the number the least of all ranks'.
    std::function<std::unique_ptr<Operation>(std::span<std::int64_t> number)> agree;
    std::function<std::unique_ptr<Operation>(std::shared_ptr<NcclMemory>)> register_memory;
  };

  // `memory` is null where there was not enough.
  MakeNcclArena(std::shared_ptr<NcclMemory> memory, host::MappedArenaPtr arena, ArenaMemory& made,
                std::shared_ptr<LaunchQueue> queue, Steps steps);

  bool advance() override;

 private:
  std::shared_ptr<NcclMemory> memory_;
  host::MappedArenaPtr arena_;
  ArenaMemory& made_;
  std::shared_ptr<LaunchQueue> queue_;
  Steps steps_;
  std::int64_t everyone_has_it_;
  std::unique_ptr<Operation> agreement_;
  std::unique_ptr<Operation> registration_;
};

}  // namespace hvd::engine
