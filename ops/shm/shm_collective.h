#pragma once

#include <memory>
#include <span>
#include <utility>

#include "ops/host/host_collective.h"
#include "ops/host/host_memory.h"
#include "ops/shm/shm_operation.h"
#include "ops/shm/shm_set.h"

namespace hvd::engine {

// Collectives among the ranks of one host through a segment that all map (DataSegment). A rank
// packs straight from the tensors into chunks of its own, which the others read and unpack straight
// into theirs. All arithmetic is ops/host's. No rank writes another's memory, except in arenas.
//
// All-reduce, chunk by chunk: of few bytes, or of two ranks, every rank reduces everything for
// itself; else each rank reduces a range and shows the result to all. Either way in rank order, so
// that each element has the same bits everywhere.
class ShmCollective final : public host::SetCollective<ShmCollective, ShmSet, ShmAllReduce,
                                                       ShmReduceScatter, ShmExchange, ShmExchange> {
 public:
  explicit ShmCollective(std::shared_ptr<ShmSet> set) : SetCollective(std::move(set)) {}
  // Among all ranks of the segment; subsets share it.
  ShmCollective(std::unique_ptr<DataSegment> segment, ArenaFiles arenas)
      : ShmCollective(std::make_shared<ShmSet>(
            std::make_shared<ShmShared>(std::move(segment), std::move(arenas)))) {}

  std::unique_ptr<Operation> make_arena(std::uint64_t number, std::size_t bytes,
                                        ArenaMemory& made) override {
    const auto arena = std::make_shared<host::MappedArena>();
    arenas_.add(number, arena);
    return std::make_unique<ShmMakeArena>(set_, arena, bytes, made);
  }
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override {
    host::check_all_reduce(slices, reduction);
    if (auto arena = arenas_.find(slices, rank_)) {
      return std::make_unique<ShmReduceInPlace>(set_, ready_, std::move(arena), slices, reduction);
    }
    return reduce_packed(slices, reduction);
  }
  void show_early(std::span<const Slice> slices) override {
    ShmAllReduce::show_early(*set_, slices);
  }
  void hide_early() noexcept override { set_->hide_early(); }
  void progress(TimePoint /*now*/) override {
    host::Transfers& transfers = set_->shared().transfers;
    if (transfers.used()) transfers.poll();  // rings hold few notes: they are heard when they come
  }

 private:
  host::MappedArenas arenas_;
};

}  // namespace hvd::engine
