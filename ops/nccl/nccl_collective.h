#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/runtime/collective.h"
#include "ops/nccl/calls.h"
#include "ops/nccl/launch_queue.h"

namespace hvd {

// Collectives on the memory of one CUDA device. A fused all-reduce of up to kMostPacked bytes is
// packed and unpacked in one launch each; other batches are one group of NCCL calls, a call a
// slice. advance() is true when a call is enqueued on the stream that all sets of this device
// share; fence() tells when it is done.
//
// NCCL cannot do all that the port asks for; these throw UnsupportedError: what nccl_reduction()
// refuses, error feedback, send and receive (they would stand in the order of the collectives).
class NcclCollective final : public Collective {
 public:
  // More than this goes faster as it is than by way of a buffer.
  static constexpr std::size_t kMostPacked = std::size_t{64} << 20;

  NcclCollective(std::shared_ptr<LaunchQueue> queue,
                 std::shared_ptr<NcclCommunicator> communicator);

  DeviceKind device() const noexcept override { return DeviceKind::kCuda; }
  Buffer allocate(std::size_t bytes) override;
  void after(const Fence& ready) override;

  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override;
  std::unique_ptr<Operation> reduce_scatter(std::span<const ScatterSlice> slices,
                                            const Reduction& reduction) override;
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) override;
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) override;
  std::unique_ptr<Operation> all_to_all(std::span<const ExchangeSlice> slices) override;
  // By way of the device, behind what is enqueued; advance() is true when `all` is filled.
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override;
  std::unique_ptr<Operation> send(const TensorView& tensor, Rank to, int tag) override;
  std::unique_ptr<Operation> receive(const TensorView& tensor, Rank from, int tag) override;
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override;

  std::optional<Duration> poll_interval() const override { return queue_->poll_interval(); }
  void progress(TimePoint now) override { queue_->watch(now); }
  Fence fence() override { return queue_->fence(communicator_); }
  void abort() noexcept override { communicator_->abort(); }

 private:
  // What is enqueued, in order: our own work, a group of NCCL calls, our own again.
  struct Stages {
    std::function<void(cudaStream_t)> before = nullptr;
    std::function<void(const NcclTarget&)> calls;
    std::function<void(cudaStream_t)> after = nullptr;
  };

  std::shared_ptr<LaunchQueue::Call> enqueue(Stages stages);
  std::unique_ptr<Operation> start(Stages stages, std::size_t bytes);
  // Memory that all packed batches share: they run one after another.
  Buffer fusion_buffer(std::size_t bytes);

  std::shared_ptr<LaunchQueue> queue_;
  std::shared_ptr<NcclCommunicator> communicator_;
  Buffer fusion_;
  std::vector<Fence> ready_;  // foreign fences, not reached when last looked at
};

}  // namespace hvd
