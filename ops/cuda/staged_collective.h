#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/ports/collective.h"
#include "ops/cuda/staging_queue.h"

namespace hvd::engine {

// Collectives on the memory of one CUDA device by way of pinned host memory and a Collective of the
// host: for ranks that share a GPU, which NCCL refuses, and where NCCL is missing. Everything that
// the host can, with its bits; as fast as the bus and the host.
class StagedCollective final : public Collective {
 public:
  // `host` has no other user, and has this rank of `size`.
  StagedCollective(int device, std::unique_ptr<Collective> host, Rank rank, int size);
  // subset() as what it is.
  std::unique_ptr<StagedCollective> staged_subset(std::uint32_t number,
                                                  std::span<const Rank> ranks);
  // Whose stream all subsets share.
  const std::shared_ptr<StagingQueue>& queue() const noexcept { return queue_; }
  // Fences given to after() for which the stream cannot wait.
  const std::vector<Fence>& ready() const noexcept { return ready_; }

  DeviceKind device() const noexcept override { return DeviceKind::kCuda; }
  Buffer allocate(std::size_t bytes) override;
  Buffer allocate_result(std::size_t bytes) override;
  void write(const void* from, void* to, std::size_t bytes) override;
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
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override;

  std::optional<Duration> poll_interval() const override;
  std::optional<Duration> prepare_sleep() override;
  void progress(TimePoint now) override { host_->progress(now); }
  Fence fence() override { return queue_->stream().fence(); }
  void abort() noexcept override { host_->abort(); }

 private:
  class Staging;
  StagedCollective(std::shared_ptr<StagingQueue> queue, std::unique_ptr<Collective> host, Rank rank,
                   int size);

  std::unique_ptr<Operation> start(std::shared_ptr<StagingQueue::Call> call);

  std::shared_ptr<StagingQueue> queue_;
  std::unique_ptr<Collective> host_;
  const Rank rank_;
  const int size_;
  std::vector<Fence> ready_;  // foreign fences, not reached when last looked at
};

}  // namespace hvd::engine
