#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/host/mapped_arena.h"
#include "ops/shm/shm_operation.h"

namespace hvd {

// Makes an arena: every rank a piece of shared memory, of which it writes the path into its chunk;
// every rank maps all of them and says whether it could. If one could not, there is none. No name
// outlives the operation.
class ShmMakeArena final : public ShmOperation {
 public:
  // Fills in `arena`, which has to live as long as what is in `made`, and `made`, which is empty.
  ShmMakeArena(std::shared_ptr<ShmSet> set, host::MappedArenaPtr arena, std::size_t bytes,
               ArenaMemory& made);

 protected:
  void write(Step step) override;
  void reduce(Step step) override;
  void read(Step step) override;

 private:
  std::shared_ptr<SharedMemory> open(std::size_t rank) const;

  host::MappedArenaPtr arena_;
  std::size_t bytes_;
  ArenaMemory& made_;
  std::shared_ptr<SharedMemory> mine_;  // null: this rank could not
  bool mapped_ = false;
};

}  // namespace hvd
