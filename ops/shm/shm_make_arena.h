#pragma once

#include <memory>

#include "ops/host/host_memory.h"
#include "ops/shm/shm_operation.h"

namespace hvd {

// Makes an arena: every rank a part in its arena file, of which it writes the offset into its
// chunk; every rank maps all of them and says whether it could. If one could not, there is none.
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
  std::shared_ptr<ArenaPart> open(std::size_t rank) const;

  std::shared_ptr<ShmSet> members_;
  host::MappedArenaPtr arena_;
  std::size_t bytes_;
  ArenaMemory& made_;
  std::shared_ptr<ArenaPart> mine_;  // null: this rank could not
  bool mapped_ = false;
};

}  // namespace hvd
