#pragma once

#include <memory>
#include <span>

#include "core/runtime/collective.h"
#include "ops/sim/sim_device.h"
#include "ops/sim/sim_state.h"

namespace hvd {

// One rank's collectives of a SimWorld, synchronous or asynchronous.
class SimCollective final : public Collective {
 public:
  SimCollective(std::shared_ptr<SimState> world, Rank rank);
  ~SimCollective() override;

  DeviceKind device() const noexcept override { return world_->options.device; }
  Buffer allocate(std::size_t bytes) override;
  void after(const Fence& ready) override;
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices, ReduceOp op,
                                        double scale) override;
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) override;
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) override;
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override;
  Fence fence() override;
  void abort() noexcept override { world_->meetings.abort(rank_); }

 private:
  std::unique_ptr<Operation> start(SimCall call);

  std::shared_ptr<SimState> world_;
  Rank rank_;
  std::unique_ptr<SimDevice> device_;  // asynchronous only; last: its thread uses the world
};

}  // namespace hvd
