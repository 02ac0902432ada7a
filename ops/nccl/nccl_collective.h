#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/ports/collective.h"
#include "ops/cuda/pinned_pool.h"
#include "ops/host/host_memory.h"
#include "ops/nccl/calls.h"
#include "ops/nccl/launch_queue.h"
#include "ops/nccl/memory.h"
#include "ops/nccl/packing_buffers.h"

namespace hvd::engine {

// Collectives on the memory of one CUDA device. A fused all-reduce of up to kMostPacked bytes is
// packed and unpacked in one launch each; other batches are one group of NCCL calls, a call a
// slice. advance() is true when a call is enqueued on the streams that all sets of this device
// share; fence() tells when it is done.
//
// Arenas are memory that NCCL allocated and registered. Slices in one are reduced in place, a call
// for each range of neighbours. They have a communicator of their own, a split of all ranks: NCCL
// wants no rank to pass registered memory where another does not, and a call with memory of its
// own choice may choose an arena's. Here it is packing buffers, or places that all ranks agreed on.
//
// NCCL cannot do all that the port asks for; these throw UnsupportedError: what nccl_reduction()
// refuses, error feedback, send and receive (they would stand in the order of the collectives).
class NcclCollective final : public Collective {
 public:
  // More than this goes faster as it is than by way of a buffer.
  static constexpr std::size_t kMostPacked = std::size_t{64} << 20;
  // More ranges of an arena than this are packed, if they are no larger than that.
  static constexpr std::size_t kMostRanges = 8;

  NcclCollective(std::shared_ptr<LaunchQueue> queue,
                 std::shared_ptr<NcclCommunicator> communicator);

  DeviceKind device() const noexcept override { return DeviceKind::kCuda; }
  Buffer allocate(std::size_t bytes) override;
  Buffer allocate_result(std::size_t bytes) override;
  std::unique_ptr<Operation> make_arena(std::uint64_t number, std::size_t bytes,
                                        ArenaMemory& made) override;
  void write(const void* from, void* to, std::size_t bytes) override;
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
  void progress(TimePoint now) override {
    queue_->pump();  // a communicator may be waited for by its other ranks alone
    queue_->watch(now);
  }
  Fence fence() override;
  void abort() noexcept override { communicator_->abort(); }

 private:
  // What is enqueued, in order: our own work, a group of NCCL calls, our own again.
  struct Stages {
    std::function<void(cudaStream_t)> pack = nullptr;
    std::function<void(const NcclTarget&)> calls = nullptr;
    std::function<void(cudaStream_t)> unpack = nullptr;
    std::shared_ptr<PackingBuffers::Turn> turn = nullptr;      // what they pack into
    std::shared_ptr<NcclMemory> memory = nullptr;              // is registered before the calls
    std::shared_ptr<NcclCommunicator> communicator = nullptr;  // communicator_, if null
  };

  std::shared_ptr<LaunchQueue::Call> enqueue(Stages stages);
  std::unique_ptr<Operation> start(Stages stages, std::size_t bytes);
  // Null, with a warning, when there is not enough.
  std::shared_ptr<NcclMemory> allocate_arena(std::size_t bytes) const;
  // Makes each of the numbers the least of all ranks', like exchange().
  std::unique_ptr<Operation> minimum(std::span<std::int64_t> numbers);
  // `calls` finds `mine` at the begin of the device's memory, and leaves `all` there from `begin`
  // on, in bytes.
  std::unique_ptr<Operation> by_way_of_device(
      std::span<const std::int64_t> mine, std::size_t begin, std::span<std::int64_t> all,
      std::function<void(const NcclTarget&, std::byte* device)> calls);
  std::unique_ptr<Operation> reduce_packed(std::span<const Slice> slices, const NcclReduction& as);
  // One of the ranks that are not in `without`; ready for calls that are added behind.
  std::shared_ptr<NcclCommunicator> make_communicator(std::vector<Rank> without,
                                                      const NcclCommunicator::Place& place);

  std::shared_ptr<LaunchQueue> queue_;
  std::shared_ptr<NcclCommunicator> communicator_;
  std::shared_ptr<NcclCommunicator> in_place_;  // for arenas, from the first one on
  PinnedPool pinned_;
  PackingBuffers packing_;
  host::MappedArenas arenas_;  // with one part, this rank's
  std::vector<Fence> ready_;   // for the next call
};

}  // namespace hvd::engine
