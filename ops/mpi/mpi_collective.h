#pragma once

#include <memory>
#include <vector>

#include "core/runtime/collective.h"
#include "ops/mpi/mpi_operation.h"

namespace hvd {

// Collectives on host memory by MPI's non-blocking calls, which move bytes only: all arithmetic is
// ops/host's, so every dtype and op works and a result does not depend on how batches were fused.
//
// All-reduce: Rabenseifner's reduce-scatter and all-gather (Thakur, Rabenseifner, Gropp 2005), with
// a direct exchange of ranges in place of recursive halving: each element is reduced by one rank,
// in rank order, and is therefore bitwise equal everywhere.
class MpiCollective final : public Collective {
 public:
  // Throws InvalidArgumentError if the limits cannot be kept.
  MpiCollective(std::shared_ptr<MpiCommunicator> communicator, MpiCollectiveLimits limits);

  DeviceKind device() const noexcept override { return DeviceKind::kCpu; }
  Buffer allocate(std::size_t bytes) override;
  void after(const Fence& ready) override;

  // Slices of one dtype.
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices, ReduceOp op,
                                        double scale) override;
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) override;
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) override;
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override;

  Fence fence() override { return {}; }  // finished operations have left nothing running
  void abort() noexcept override;

 private:
  std::shared_ptr<MpiCollectiveState> state_;
  std::vector<Fence> ready_;  // not reached when last looked at
};

}  // namespace hvd
