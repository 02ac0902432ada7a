#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/host/byte_sequence.h"
#include "ops/host/host_memory.h"
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

// See ShmCollective. Requires: slices of one dtype whose parts add up, and not Adasum. A chunk has
// a share for each rank.
class ShmReduceScatter final : public ShmOperation {
 public:
  ShmReduceScatter(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
                   std::span<const ScatterSlice> slices, const Reduction& reduction);

 protected:
  void write(Step step) override;
  void read(Step step) override;
  bool sends(std::size_t to, Step step) const override { return length(to, step) > 0; }

 private:
  std::size_t length(std::size_t rank, Step step) const;

  Reduction reduction_;
  DType dtype_ = DType::kF32;
  std::vector<host::ByteSequence> inputs_;  // what this rank contributes to the part of each rank
  host::ByteSequence output_;
  std::vector<const void*> contributions_;
  Buffer scratch_;
};

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
