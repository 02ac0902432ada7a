#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/cuda/staged_collective.h"
#include "ops/cuda_ipc/ipc_set.h"
#include "ops/cuda_ipc/ipc_teardown.h"

namespace hvd::engine {

// Collectives on the memory of CUDA devices of one host, whose ranks may share one: each rank packs
// what it brings into a segment of its own, which the others read (CUDA IPC). Reductions run on the
// device, in rank order and with the host's bits. Adasum, wire formats, error feedback, exchange,
// send and receive go by way of the host, and so does everything where memory cannot be shared.
// advance() is true when an operation is enqueued; fence() tells when it is done.
class IpcCollective final : public Collective {
 public:
  // How long the device may take before it counts as lost; zero = forever.
  struct Options {
    Duration limit = Duration::zero();
    IpcLimits limits = {};
  };

  // `handshakes` is a collective of host memory with the same ranks as `staged`; it serves nothing
  // else, not even `staged`.
  IpcCollective(std::unique_ptr<StagedCollective> staged, std::unique_ptr<Collective> handshakes,
                Rank rank, int size, const Options& options);
  ~IpcCollective() override;

  DeviceKind device() const noexcept override { return DeviceKind::kCuda; }
  Buffer allocate(std::size_t bytes) override { return staged_->allocate(bytes); }
  Buffer allocate_result(std::size_t bytes) override { return staged_->allocate_result(bytes); }
  void write(const void* from, void* to, std::size_t bytes) override {
    staged_->write(from, to, bytes);
  }
  void after(const Fence& ready) override { staged_->after(ready); }

  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override;
  std::unique_ptr<Operation> reduce_scatter(std::span<const ScatterSlice> slices,
                                            const Reduction& reduction) override;
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) override;
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) override;
  std::unique_ptr<Operation> all_to_all(std::span<const ExchangeSlice> slices) override;
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override;
  std::unique_ptr<Operation> send(const TensorView& tensor, Rank to, int tag) override {
    return staged_->send(tensor, to, tag);
  }
  std::unique_ptr<Operation> receive(const TensorView& tensor, Rank from, int tag) override {
    return staged_->receive(tensor, from, tag);
  }
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override;

  std::optional<Duration> poll_interval() const override;
  std::optional<Duration> prepare_sleep() override;
  void progress(TimePoint now) override;
  Fence fence() override;
  void abort() noexcept override;

 private:
  IpcCollective(std::unique_ptr<StagedCollective> staged, std::unique_ptr<Collective> handshakes,
                const IpcPlace& place, const Options& options, std::shared_ptr<IpcDevice> device,
                std::shared_ptr<const IpcAbort> parent);

  // `work` may be empty; `staged` does the same.
  std::unique_ptr<Operation> start(std::unique_ptr<IpcWork> work, std::size_t bytes,
                                   std::function<std::unique_ptr<Operation>()> staged);

  const IpcPlace place_;
  const Options options_;
  std::shared_ptr<IpcDevice> device_;
  std::unique_ptr<StagedCollective> staged_;
  std::shared_ptr<IpcAbort> abort_;
  std::shared_ptr<IpcSet> set_;
};

}  // namespace hvd::engine
