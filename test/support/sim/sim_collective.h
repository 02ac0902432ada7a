#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ops/host/host_collective.h"
#include "test/support/sim/sim_meetings.h"

namespace hvd::engine {

// Any operation: each rank gets what all ranks have packed and makes its own results of it. It
// arrives when it is made or, on a device, when that gets there.
class SimOperation final : public Operation {
 public:
  SimOperation(std::shared_ptr<SimSet> set, std::vector<Fence> ready, std::span<const Slice> slices,
               const Reduction& reduction);
  SimOperation(std::shared_ptr<SimSet> set, std::vector<Fence> ready,
               std::span<const ScatterSlice> slices, const Reduction& reduction);
  SimOperation(std::shared_ptr<SimSet> set, std::vector<Fence> ready, std::span<const Slice> slices,
               Rank root);
  SimOperation(std::shared_ptr<SimSet> set, std::vector<Fence> ready,
               std::span<const GatherSlice> slices);
  SimOperation(std::shared_ptr<SimSet> set, std::vector<Fence> ready,
               std::span<const ExchangeSlice> slices);
  // Without a device it is polled.
  SimOperation(std::shared_ptr<SimSet> set, SimDevice* device, std::size_t packed_bytes,
               SimCall call);
  ~SimOperation() override { set_->shared().meetings.withdraw(*call_); }

  bool advance() override;
  OperationStats stats() const override { return {.packed_bytes = packed_bytes_}; }

 private:
  const std::shared_ptr<SimSet> set_;
  const SimCallPtr call_;
  const std::size_t packed_bytes_;
  const bool enqueued_;
  std::uint64_t number_ = 0;
  bool finished_ = false;
};

// One rank's collectives of a SimWorld or of a subset of one, synchronous or asynchronous.
// Transfers are polled in both: they stand outside the order of a device's queue.
class SimCollective final : public host::SetCollective<SimCollective, SimSet, SimOperation,
                                                       SimOperation, SimOperation, SimOperation> {
 public:
  explicit SimCollective(std::shared_ptr<SimSet> set);
  ~SimCollective() override;

  DeviceKind device() const noexcept override { return set_->shared().options.device; }
  std::unique_ptr<Operation> make_arena(std::uint64_t number, std::size_t bytes,
                                        ArenaMemory& made) override;
  void write(const void* from, void* to, std::size_t bytes) override;
  void after(const Fence& ready) override;
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override;
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override;
  Fence fence() override { return device_ == nullptr ? Fence() : device_->fence(); }

 private:
  host::MappedArenas arenas_;
  std::unique_ptr<SimDevice> device_;  // asynchronous only; last: its thread uses the rest
};

}  // namespace hvd::engine
