#include "ops/shm/shm_collective.h"

#include <algorithm>

#include "ops/host/adasum_operation.h"
#include "ops/host/arguments.h"
#include "ops/host/host_memory.h"
#include "ops/host/transfer_operation.h"
#include "ops/shm/shm_make_arena.h"
#include "ops/shm/shm_movement.h"
#include "ops/shm/shm_reductions.h"

namespace hvd {

ShmCollective::ShmCollective(std::unique_ptr<DataSegment> segment, ArenaFiles arenas)
    : set_(std::make_shared<ShmSet>(
          std::make_shared<ShmShared>(std::move(segment), std::move(arenas)))) {}

Buffer ShmCollective::allocate(std::size_t bytes) {
  return host::allocate_buffer(bytes);
}

std::unique_ptr<Operation> ShmCollective::make_arena(std::uint64_t number, std::size_t bytes,
                                                     ArenaMemory& made) {
  const auto arena = std::make_shared<host::MappedArena>();
  arenas_.add(number, arena);
  return std::make_unique<ShmMakeArena>(set_, arena, bytes, made);
}

void ShmCollective::after(const Fence& ready) {
  std::erase_if(ready_, [](const Fence& fence) { return fence.reached(); });
  if (!ready.reached()) ready_.push_back(ready);
}

std::unique_ptr<Operation> ShmCollective::all_reduce(std::span<const Slice> slices,
                                                     const Reduction& reduction) {
  host::check_all_reduce(slices, reduction);
  if (reduction.op == ReduceOp::kAdasum) {
    return std::make_unique<host::AdasumOperation>(*this, rank(), size(), ready_, slices,
                                                   reduction);
  }
  if (auto arena = arenas_.find(slices, rank())) {
    return std::make_unique<ShmReduceInPlace>(set_, ready_, std::move(arena), slices, reduction);
  }
  return std::make_unique<ShmAllReduce>(set_, ready_, slices, reduction);
}

std::unique_ptr<Operation> ShmCollective::reduce_scatter(std::span<const ScatterSlice> slices,
                                                         const Reduction& reduction) {
  host::check_reduce_scatter(slices, reduction, rank(), size());
  if (reduction.op == ReduceOp::kAdasum) {
    return std::make_unique<host::AdasumOperation>(*this, rank(), size(), ready_, slices,
                                                   reduction);
  }
  return std::make_unique<ShmReduceScatter>(set_, ready_, slices, reduction);
}

std::unique_ptr<Operation> ShmCollective::broadcast(std::span<const Slice> slices, Rank root) {
  host::check_rank("broadcast from root", root, size());
  return std::make_unique<ShmGather>(set_, ready_, slices, root);
}

std::unique_ptr<Operation> ShmCollective::all_gather(std::span<const GatherSlice> slices) {
  host::check_all_gather(slices, size());
  return std::make_unique<ShmGather>(set_, ready_, slices);
}

std::unique_ptr<Operation> ShmCollective::all_to_all(std::span<const ExchangeSlice> slices) {
  host::check_all_to_all(slices, rank(), size());
  return std::make_unique<ShmExchange>(set_, ready_, slices);
}

std::unique_ptr<Operation> ShmCollective::exchange(std::span<const std::int64_t> mine,
                                                   std::span<std::int64_t> all) {
  host::check_exchange(mine.size(), all.size(), size());
  const GatherSlice slice = {mine.data(), all.data(),
                             std::vector<std::size_t>(set_->size(), mine.size_bytes())};
  return all_gather({&slice, 1});
}

std::unique_ptr<Operation> ShmCollective::send(const TensorView& tensor, Rank to, int tag) {
  host::check_rank("send to rank", to, size());
  return transfer(true, tensor, to, tag);
}

std::unique_ptr<Operation> ShmCollective::receive(const TensorView& tensor, Rank from, int tag) {
  host::check_rank("receive from rank", from, size());
  return transfer(false, tensor, from, tag);
}

std::unique_ptr<Operation> ShmCollective::transfer(bool sends, const TensorView& tensor, Rank peer,
                                                   int tag) {
  return std::make_unique<host::TransferOperation<ShmSet>>(
      set_, host::Transfer{.sends = sends,
                           .key = {set_->key(), tag},
                           .peer = set_->member(static_cast<std::size_t>(peer)),
                           .from = sends ? rank() : peer,
                           .to = sends ? peer : rank(),
                           .tensor = tensor,
                           .ready = ready_});
}

std::unique_ptr<Collective> ShmCollective::subset(std::uint32_t number,
                                                  std::span<const Rank> ranks) {
  host::check_subset(ranks, rank(), size());
  std::vector<int> members;
  for (const Rank each : ranks) members.push_back(set_->member(static_cast<std::size_t>(each)));
  return std::unique_ptr<Collective>(
      new ShmCollective(std::make_shared<ShmSet>(set_, number, std::move(members))));
}

void ShmCollective::progress(TimePoint /*now*/) {
  host::Transfers& transfers = set_->shared().transfers;
  if (transfers.used()) transfers.poll();  // rings hold few notes: they are heard when they come
}

}  // namespace hvd
