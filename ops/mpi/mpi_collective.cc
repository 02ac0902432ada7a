#include "ops/mpi/mpi_collective.h"

#include <algorithm>

#include "ops/host/adasum_operation.h"
#include "ops/host/arguments.h"
#include "ops/host/host_memory.h"
#include "ops/host/transfer_operation.h"
#include "ops/mpi/mpi_movement.h"
#include "ops/mpi/mpi_reductions.h"

namespace hvd {

MpiCollective::MpiCollective(std::shared_ptr<MpiCommunicator> communicator,
                             MpiCollectiveLimits limits)
    : set_(std::make_shared<MpiSet>(std::make_shared<MpiShared>(std::move(communicator), limits))) {
}

Buffer MpiCollective::allocate(std::size_t bytes) {
  return host::allocate_buffer(bytes);
}

void MpiCollective::after(const Fence& ready) {
  std::erase_if(ready_, [](const Fence& fence) { return fence.reached(); });
  if (!ready.reached()) ready_.push_back(ready);
}

std::unique_ptr<Operation> MpiCollective::all_reduce(std::span<const Slice> slices,
                                                     const Reduction& reduction) {
  host::check_all_reduce(slices, reduction);
  if (reduction.op == ReduceOp::kAdasum) {
    return std::make_unique<host::AdasumOperation>(*this, rank(), size(), ready_, slices,
                                                   reduction);
  }
  return std::make_unique<MpiAllReduce>(set_, ready_, slices, reduction);
}

std::unique_ptr<Operation> MpiCollective::reduce_scatter(std::span<const ScatterSlice> slices,
                                                         const Reduction& reduction) {
  host::check_reduce_scatter(slices, reduction, rank(), size());
  if (reduction.op == ReduceOp::kAdasum) {
    return std::make_unique<host::AdasumOperation>(*this, rank(), size(), ready_, slices,
                                                   reduction);
  }
  return std::make_unique<MpiReduceScatter>(set_, ready_, slices, reduction);
}

std::unique_ptr<Operation> MpiCollective::broadcast(std::span<const Slice> slices, Rank root) {
  host::check_rank("broadcast from root", root, size());
  return std::make_unique<MpiBroadcast>(set_, ready_, slices, root);
}

std::unique_ptr<Operation> MpiCollective::all_gather(std::span<const GatherSlice> slices) {
  host::check_all_gather(slices, size());
  return std::make_unique<MpiExchange>(set_, ready_, slices);
}

std::unique_ptr<Operation> MpiCollective::all_to_all(std::span<const ExchangeSlice> slices) {
  host::check_all_to_all(slices, rank(), size());
  return std::make_unique<MpiExchange>(set_, ready_, slices);
}

std::unique_ptr<Operation> MpiCollective::exchange(std::span<const std::int64_t> mine,
                                                   std::span<std::int64_t> all) {
  host::check_exchange(mine.size(), all.size(), size());
  const GatherSlice slice = {mine.data(), all.data(),
                             std::vector<std::size_t>(set_->size(), mine.size_bytes())};
  return all_gather({&slice, 1});
}

std::unique_ptr<Operation> MpiCollective::send(const TensorView& tensor, Rank to, int tag) {
  host::check_rank("send to rank", to, size());
  return transfer(true, tensor, to, tag);
}

std::unique_ptr<Operation> MpiCollective::receive(const TensorView& tensor, Rank from, int tag) {
  host::check_rank("receive from rank", from, size());
  return transfer(false, tensor, from, tag);
}

std::unique_ptr<Operation> MpiCollective::transfer(bool sends, const TensorView& tensor, Rank peer,
                                                   int tag) {
  return std::make_unique<host::TransferOperation<MpiSet>>(
      set_, host::Transfer{.sends = sends,
                           .key = {set_->key(), tag},
                           .peer = set_->world_rank(static_cast<std::size_t>(peer)),
                           .from = sends ? rank() : peer,
                           .to = sends ? peer : rank(),
                           .tensor = tensor,
                           .ready = ready_});
}

std::unique_ptr<Collective> MpiCollective::subset(std::uint32_t number,
                                                  std::span<const Rank> ranks) {
  host::check_subset(ranks, rank(), size());
  std::vector<Rank> members;
  for (const Rank each : ranks) members.push_back(set_->world_rank(static_cast<std::size_t>(each)));
  return std::unique_ptr<Collective>(
      new MpiCollective(std::make_shared<MpiSet>(set_, number, std::move(members))));
}

std::optional<Duration> MpiCollective::poll_interval() const {
  const MpiCommunicator& communicator = *set_->shared().communicator;
  const bool moves = communicator.has_work() || set_->shared().transfers.restless();
  if (!moves) return communicator.linger_interval();
  return communicator.poll_interval();
}

void MpiCollective::progress(TimePoint now) {
  host::Transfers& transfers = set_->shared().transfers;
  const bool looked = set_->shared().communicator->linger(now);
  if (transfers.restless() || (looked && transfers.unsettled())) transfers.poll();
}

void MpiCollective::abort() noexcept {
  set_->abort();
  MpiEnvironment::instance().note_failure();
}

}  // namespace hvd
