#pragma once

#include <memory>
#include <vector>

#include "core/ports/collective.h"
#include "ops/mpi/mpi_set.h"

namespace hvd {

// Collectives on host memory by MPI's non-blocking messages between two ranks, which move bytes
// only: all arithmetic is ops/host's, so every dtype and op works and a result does not depend on
// how batches were fused. MPI's own collective calls would want one order for all operations of a
// communicator and a communicator for every set; messages are told apart by their tags (MpiTags),
// so operations of one set and of several run side by side.
//
// All-reduce: Rabenseifner's reduce-scatter and all-gather (Thakur, Rabenseifner, Gropp 2005), with
// a direct exchange of ranges in place of recursive halving: each element is reduced by one rank,
// in rank order, and is therefore bitwise equal everywhere.
class MpiCollective final : public Collective {
 public:
  // Among all ranks of the communicator; subsets share it. Throws InvalidArgumentError if the
  // limits cannot be kept.
  MpiCollective(std::shared_ptr<MpiCommunicator> communicator, MpiCollectiveLimits limits);

  DeviceKind device() const noexcept override { return DeviceKind::kCpu; }
  Buffer allocate(std::size_t bytes) override;
  void after(const Fence& ready) override;

  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override;
  std::unique_ptr<Operation> reduce_scatter(std::span<const ScatterSlice> slices,
                                            const Reduction& reduction) override;
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) override;
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) override;
  std::unique_ptr<Operation> all_to_all(std::span<const ExchangeSlice> slices) override;
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override;
  std::unique_ptr<Operation> send(const TensorView& tensor, Rank to, int tag) override;
  std::unique_ptr<Operation> receive(const TensorView& tensor, Rank from, int tag) override;
  // Throws UnsupportedError when MPI has too few tags for so many sets (MpiTags).
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override;

  std::optional<Duration> poll_interval() const override;
  void progress(TimePoint now) override;
  Fence fence() override { return {}; }  // finished operations have left nothing running
  void abort() noexcept override;

 private:
  explicit MpiCollective(std::shared_ptr<MpiSet> set) : set_(std::move(set)) {}

  Rank rank() const noexcept { return static_cast<Rank>(set_->rank()); }
  int size() const noexcept { return static_cast<int>(set_->size()); }
  std::unique_ptr<Operation> transfer(bool sends, const TensorView& tensor, Rank peer, int tag);

  std::shared_ptr<MpiSet> set_;
  std::vector<Fence> ready_;  // not reached when last looked at
};

}  // namespace hvd
