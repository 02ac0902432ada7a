#include "test/support/sim/sim_collective.h"

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "test/support/sim/sim_arena.h"

namespace hvd {
namespace {

using Lane = SimMeetings::Lane;

// Arrives when it is made.
class PolledOperation final : public Operation {
 public:
  PolledOperation(SimMeetings& meetings, Lane lane, SimCallPtr call)
      : meetings_(meetings),
        lane_(lane),
        call_(std::move(call)),
        number_(meetings_.arrive(lane_, call_)) {}
  ~PolledOperation() override { meetings_.withdraw(call_); }

  bool advance() override {
    finished_ = finished_ || meetings_.collect(lane_, number_, call_);
    return finished_;
  }
  OperationStats stats() const override { return {.packed_bytes = packed_bytes(*call_)}; }

 private:
  SimMeetings& meetings_;
  Lane lane_;
  SimCallPtr call_;
  std::uint64_t number_;
  bool finished_ = false;
};

// Arrives when its device gets there.
class EnqueuedOperation final : public Operation {
 public:
  EnqueuedOperation(SimMeetings& meetings, SimDevice& device, SimCallPtr call)
      : meetings_(meetings), call_(std::move(call)) {
    device.enqueue([&meetings, call = call_] {
      const std::uint64_t number = meetings.arrive(Lane::kData, call);
      meetings.wait_and_collect(Lane::kData, number, call);
    });
  }
  ~EnqueuedOperation() override { meetings_.withdraw(call_); }

  bool advance() override {
    call_->member->check_running();
    return true;
  }
  OperationStats stats() const override { return {.packed_bytes = packed_bytes(*call_)}; }

 private:
  SimMeetings& meetings_;
  SimCallPtr call_;
};

class TransferOperation final : public Operation {
 public:
  TransferOperation(SimTransfers& transfers, SimTransferPtr transfer, std::vector<Fence> ready)
      : transfers_(transfers), transfer_(std::move(transfer)), ready_(std::move(ready)) {
    transfers_.post(transfer_);
    if (ready_.empty()) transfers_.make_ready(transfer_);
  }
  ~TransferOperation() override { TransferOperation::withdraw(); }

  bool advance() override {
    if (finished_) return true;
    if (host::all_reached(ready_)) transfers_.make_ready(transfer_);
    finished_ = transfers_.collect(*transfer_);
    return finished_;
  }
  bool withdraw() noexcept override {
    transfers_.withdraw(transfer_);
    return true;
  }
  OperationStats stats() const override {
    return {.packed_bytes = transfer_->sends ? transfer_->tensor.bytes() : 0};
  }

 private:
  SimTransfers& transfers_;
  SimTransferPtr transfer_;
  std::vector<Fence> ready_;
  bool finished_ = false;
};

}  // namespace

SimCollective::SimCollective(std::shared_ptr<SimState> world, SimMemberPtr member)
    : HostCollective(member->rank, member->size),
      world_(std::move(world)),
      member_(std::move(member)) {
  if (world_->options.asynchronous) device_ = std::make_unique<SimDevice>();
}

SimCollective::~SimCollective() {
  if (device_ != nullptr) abort();  // a task may wait for ranks that will not come
}

std::unique_ptr<Operation> SimCollective::make_arena(std::uint64_t number, std::size_t bytes,
                                                     ArenaMemory& made) {
  const auto arena = std::make_shared<host::MappedArena>();
  arenas_.add(number, arena);
  return make_sim_arena(arena, bytes, size_, made,
                        [this](auto mine, auto all) { return exchange(mine, all); });
}

// Whatever device it plays: its memory is the host's.
void SimCollective::write(const void* from, void* to, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void SimCollective::after(const Fence& ready) {
  if (device_ == nullptr) {
    ready.wait();
    return;
  }
  HostCollective::after(ready);
  device_->enqueue([member = member_, ready] {
    while (!ready.reached() && !member->is_aborted()) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (ready.reached()) ready.wait();  // throws if its device failed
  });
}

std::unique_ptr<Operation> SimCollective::all_reduce(std::span<const Slice> slices,
                                                     const Reduction& reduction) {
  host::check_all_reduce(slices, reduction);
  SimCall call{.kind = SimKind::kReduce, .reduction = reduction};
  call.slices.assign(slices.begin(), slices.end());
  call.arena = arenas_.find(slices, rank_);
  return start(std::move(call));
}

std::unique_ptr<Operation> SimCollective::reduce_scatter(std::span<const ScatterSlice> slices,
                                                         const Reduction& reduction) {
  host::check_reduce_scatter(slices, reduction, rank_, size_);
  SimCall call{.kind = SimKind::kScatter, .reduction = reduction};
  for (const ScatterSlice& slice : slices) {
    call.slices.push_back({slice.input, slice.output});
    call.numel_of.push_back(slice.numel_of);
  }
  return start(std::move(call));
}

std::unique_ptr<Operation> SimCollective::broadcast(std::span<const Slice> slices, Rank root) {
  host::check_rank("broadcast from root", root, size_);
  SimCall call{.kind = SimKind::kBroadcast, .root = root};
  call.slices.assign(slices.begin(), slices.end());
  return start(std::move(call));
}

std::unique_ptr<Operation> SimCollective::all_gather(std::span<const GatherSlice> slices) {
  host::check_all_gather(slices, size_);
  SimCall call{.kind = SimKind::kGather};
  call.gathers.assign(slices.begin(), slices.end());
  return start(std::move(call));
}

std::unique_ptr<Operation> SimCollective::all_to_all(std::span<const ExchangeSlice> slices) {
  host::check_all_to_all(slices, rank_, size_);
  SimCall call{.kind = SimKind::kAllToAll};
  call.exchanges.assign(slices.begin(), slices.end());
  return start(std::move(call));
}

std::unique_ptr<Operation> SimCollective::exchange(std::span<const std::int64_t> mine,
                                                   std::span<std::int64_t> all) {
  const Lane lane = device_ == nullptr ? Lane::kData : Lane::kHost;
  auto call = std::make_shared<SimCall>();
  call->kind = SimKind::kExchange;
  call->member = member_;
  call->mine = mine;
  call->all = all;
  return std::make_unique<PolledOperation>(world_->meetings, lane, std::move(call));
}

std::unique_ptr<Collective> SimCollective::subset(std::uint32_t number,
                                                  std::span<const Rank> ranks) {
  const Rank rank = host::check_subset(ranks, rank_, size_);
  return std::make_unique<SimCollective>(world_,
                                         world_->meetings.subset(member_, number, ranks, rank));
}

Fence SimCollective::fence() {
  return device_ == nullptr ? Fence() : device_->fence();
}

std::unique_ptr<Operation> SimCollective::start(SimCall call) {
  call.member = member_;
  auto shared = std::make_shared<SimCall>(std::move(call));
  if (device_ == nullptr) {
    return std::make_unique<PolledOperation>(world_->meetings, Lane::kData, std::move(shared));
  }
  return std::make_unique<EnqueuedOperation>(world_->meetings, *device_, std::move(shared));
}

std::unique_ptr<Operation> SimCollective::transfer(bool sends, const TensorView& tensor, Rank peer,
                                                   int tag) {
  auto end = std::make_shared<SimTransfer>();
  end->member = member_;
  end->peer = peer;
  end->tag = tag;
  end->sends = sends;
  end->tensor = tensor;
  return std::make_unique<TransferOperation>(world_->transfers, std::move(end), ready_);
}

}  // namespace hvd
