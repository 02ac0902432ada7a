#include "ops/shm/shm_collective.h"

#include "ops/shm/shm_make_arena.h"

namespace hvd {

ShmCollective::ShmCollective(std::unique_ptr<DataSegment> segment, ArenaFiles arenas)
    : ShmCollective(std::make_shared<ShmSet>(
          std::make_shared<ShmShared>(std::move(segment), std::move(arenas)))) {}

std::unique_ptr<Collective> ShmCollective::collective_of(std::shared_ptr<ShmSet> set) const {
  return std::unique_ptr<Collective>(new ShmCollective(std::move(set)));
}

std::unique_ptr<Operation> ShmCollective::make_arena(std::uint64_t number, std::size_t bytes,
                                                     ArenaMemory& made) {
  const auto arena = std::make_shared<host::MappedArena>();
  arenas_.add(number, arena);
  return std::make_unique<ShmMakeArena>(set_, arena, bytes, made);
}

std::unique_ptr<Operation> ShmCollective::all_reduce(std::span<const Slice> slices,
                                                     const Reduction& reduction) {
  host::check_all_reduce(slices, reduction);
  if (auto arena = arenas_.find(slices, rank_)) {
    return std::make_unique<ShmReduceInPlace>(set_, ready_, std::move(arena), slices, reduction);
  }
  return reduce_packed(slices, reduction);
}

void ShmCollective::progress(TimePoint /*now*/) {
  host::Transfers& transfers = set_->shared().transfers;
  if (transfers.used()) transfers.poll();  // rings hold few notes: they are heard when they come
}

}  // namespace hvd
