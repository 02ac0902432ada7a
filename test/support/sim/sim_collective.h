#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/ports/collective.h"
#include "ops/host/host_collective.h"
#include "ops/host/host_memory.h"
#include "test/support/sim/sim_device.h"
#include "test/support/sim/sim_state.h"

namespace hvd {

// One rank's collectives of a SimWorld or of a subset of one, synchronous or asynchronous.
// Transfers are polled in both: they stand outside the order of a device's queue.
class SimCollective final : public host::HostCollective {
 public:
  SimCollective(std::shared_ptr<SimState> world, SimMemberPtr member);
  ~SimCollective() override;

  DeviceKind device() const noexcept override { return world_->options.device; }
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
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override;
  // Throws InternalError when a rank asked for other ranks under this number.
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override;
  Fence fence() override;
  void abort() noexcept override { world_->meetings.abort(*member_); }

 private:
  std::unique_ptr<Operation> start(SimCall call);
  std::unique_ptr<Operation> transfer(bool sends, const TensorView& tensor, Rank peer,
                                      int tag) override;

  std::shared_ptr<SimState> world_;
  SimMemberPtr member_;
  host::MappedArenas arenas_;
  std::unique_ptr<SimDevice> device_;  // asynchronous only; last: its thread uses the world
};

}  // namespace hvd
