#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/host/mapped_arena.h"
#include "ops/shm/shm_operation.h"

namespace hvd {

// An all-reduce of slices that lie in an arena. Each rank reduces an equal share of the cache lines
// that all of them take, block by block: from where every rank has them, in rank order, into all of
// these places. So each line is fetched once on each of two ranks, and nothing is packed.
class ShmReduceInPlace final : public ShmOperation {
 public:
  // Requires: slices of one dtype, in `arena`; a reduction element by element.
  ShmReduceInPlace(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
                   host::MappedArenaPtr arena, std::span<const Slice> slices,
                   const Reduction& reduction);

 protected:
  // The step says that this rank's values are there, and then that its share is reduced.
  void write(Step) override {}
  void reduce(Step step) override;
  void read(Step) override {}

 private:
  void reduce(const Slice& slice, std::size_t first, std::size_t last);

  host::MappedArenaPtr arena_;
  std::vector<Slice> slices_;
  Reduction reduction_;
  std::size_t lines_ = 0;  // of all slices
  std::vector<const void*> inputs_;
};

}  // namespace hvd
