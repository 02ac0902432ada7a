#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/host/byte_sequence.h"
#include "ops/shm/shm_operation.h"

namespace hvd {

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

}  // namespace hvd
