#pragma once

#include <memory>
#include <vector>

#include "core/ports/collective.h"
#include "ops/host/host_memory.h"
#include "ops/shm/shm_set.h"

namespace hvd {

// Collectives among the ranks of one host through a segment that all map (DataSegment). A rank
// packs straight from the tensors into chunks of its own, which the others read and unpack straight
// into theirs. All arithmetic is ops/host's. Nobody writes another rank's memory, but for arenas.
//
// All-reduce, chunk by chunk: of few bytes, or of two ranks, every rank reduces everything for
// itself; else each rank reduces a range and shows the result to all. Either way in rank order, so
// that each element has the same bits everywhere.
class ShmCollective final : public Collective {
 public:
  // Among all ranks of the segment; subsets share it.
  ShmCollective(std::unique_ptr<DataSegment> segment, ArenaFiles arenas);

  DeviceKind device() const noexcept override { return DeviceKind::kCpu; }
  Buffer allocate(std::size_t bytes) override;
  std::unique_ptr<Operation> make_arena(std::uint64_t number, std::size_t bytes,
                                        ArenaMemory& made) override;
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
  // Throws UnsupportedError when too many sets exist or memory for another one is missing.
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override;

  void progress(TimePoint now) override;
  Fence fence() override { return {}; }  // finished operations have left nothing running
  void abort() noexcept override { set_->abort(); }

 private:
  explicit ShmCollective(std::shared_ptr<ShmSet> set) : set_(std::move(set)) {}

  Rank rank() const noexcept { return static_cast<Rank>(set_->rank()); }
  int size() const noexcept { return static_cast<int>(set_->size()); }
  std::unique_ptr<Operation> transfer(bool sends, const TensorView& tensor, Rank peer, int tag);

  std::shared_ptr<ShmSet> set_;
  host::MappedArenas arenas_;
  std::vector<Fence> ready_;  // not reached when last looked at
};

}  // namespace hvd
