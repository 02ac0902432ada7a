#pragma once

#include <memory>
#include <span>
#include <utility>

#include "ops/host/host_collective.h"
#include "ops/host/host_memory.h"
#include "ops/shm/shm_movement.h"
#include "ops/shm/shm_reductions.h"
#include "ops/shm/shm_set.h"

namespace hvd {

// Collectives among the ranks of one host through a segment that all map (DataSegment). A rank
// packs straight from the tensors into chunks of its own, which the others read and unpack straight
// into theirs. All arithmetic is ops/host's. Nobody writes another rank's memory, but for arenas.
//
// All-reduce, chunk by chunk: of few bytes, or of two ranks, every rank reduces everything for
// itself; else each rank reduces a range and shows the result to all. Either way in rank order, so
// that each element has the same bits everywhere.
class ShmCollective final : public host::SetCollective<ShmSet, ShmAllReduce, ShmReduceScatter,
                                                       ShmGather, ShmGather, ShmExchange> {
 public:
  // Among all ranks of the segment; subsets share it.
  ShmCollective(std::unique_ptr<DataSegment> segment, ArenaFiles arenas);

  std::unique_ptr<Operation> make_arena(std::uint64_t number, std::size_t bytes,
                                        ArenaMemory& made) override;
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override;
  void progress(TimePoint now) override;

 private:
  explicit ShmCollective(std::shared_ptr<ShmSet> set) : SetCollective(std::move(set)) {}
  std::unique_ptr<Collective> collective_of(std::shared_ptr<ShmSet> set) const override;

  host::MappedArenas arenas_;
};

}  // namespace hvd
