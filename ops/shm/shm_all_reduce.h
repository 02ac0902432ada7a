#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/host/reduce_batch.h"
#include "ops/shm/shm_operation.h"

namespace hvd {

// See ShmCollective. Requires: slices of one dtype, and not Adasum.
class ShmAllReduce final : public ShmOperation {
 public:
  ShmAllReduce(std::shared_ptr<ShmSet> set, std::vector<Fence> ready, std::span<const Slice> slices,
               const Reduction& reduction);

 protected:
  void write(Step step) override;
  void reduce(Step step) override;
  void read(Step step) override;

 private:
  // Bytes [first, last) of the batch.
  struct Range {
    std::size_t first = 0;
    std::size_t last = 0;
    std::size_t bytes() const { return last - first; }
  };
  Range range_of(Step step) const;
  Range part_of(const Range& range, std::size_t rank) const;
  void show(const Range& range, std::byte* to);
  void unpack(const Range& range, const std::byte* from);
  void reduce(const Range& range, Step step, std::byte* out);

  std::unique_ptr<host::ReduceBatch> batch_;
  bool shared_;             // the work: each rank reduces a part of each step
  std::size_t step_bytes_;  // whole units fit into a chunk
  std::vector<const void*> inputs_;
};

}  // namespace hvd
