#include "ops/sim/sim_collective.h"

#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "core/base/status.h"

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
    meetings_.check_running(call_->rank);
    return true;
  }

 private:
  SimMeetings& meetings_;
  SimCallPtr call_;
};

void check_op(ReduceOp op) {
  if (op == ReduceOp::kAverage) {
    throw InvalidArgumentError("all_reduce: an average is a sum with a scale");
  }
}

}  // namespace

SimCollective::SimCollective(std::shared_ptr<SimState> world, Rank rank)
    : world_(std::move(world)), rank_(rank) {
  if (world_->options.asynchronous) device_ = std::make_unique<SimDevice>();
}

SimCollective::~SimCollective() {
  if (device_ != nullptr) abort();  // a task may wait for ranks that will not come
}

Buffer SimCollective::allocate(std::size_t bytes) {
  constexpr std::align_val_t kAlignment{64};  // a cache line
  std::shared_ptr<void> owner(::operator new(bytes, kAlignment),
                              [](void* data) { ::operator delete(data, kAlignment); });
  void* const data = owner.get();
  return {data, bytes, std::move(owner)};
}

void SimCollective::after(const Fence& ready) {
  if (device_ == nullptr) {
    ready.wait();
    return;
  }
  device_->enqueue([world = world_, rank = rank_, ready] {
    while (!ready.reached() && !world->meetings.aborted(rank)) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (ready.reached()) ready.wait();  // throws if its device failed
  });
}

std::unique_ptr<Operation> SimCollective::all_reduce(std::span<const Slice> slices, ReduceOp op,
                                                     double scale) {
  check_op(op);
  SimCall call{.kind = SimKind::kReduce, .op = op, .scale = scale};
  call.slices.assign(slices.begin(), slices.end());
  return start(std::move(call));
}

std::unique_ptr<Operation> SimCollective::broadcast(std::span<const Slice> slices, Rank root) {
  SimCall call{.kind = SimKind::kBroadcast, .root = root};
  call.slices.assign(slices.begin(), slices.end());
  return start(std::move(call));
}

std::unique_ptr<Operation> SimCollective::all_gather(std::span<const GatherSlice> slices) {
  SimCall call{.kind = SimKind::kGather};
  call.gathers.assign(slices.begin(), slices.end());
  return start(std::move(call));
}

std::unique_ptr<Operation> SimCollective::exchange(std::span<const std::int64_t> mine,
                                                   std::span<std::int64_t> all) {
  const Lane lane = device_ == nullptr ? Lane::kData : Lane::kHost;
  auto call = std::make_shared<SimCall>();
  call->kind = SimKind::kExchange;
  call->rank = rank_;
  call->mine = mine;
  call->all = all;
  return std::make_unique<PolledOperation>(world_->meetings, lane, std::move(call));
}

Fence SimCollective::fence() {
  return device_ == nullptr ? Fence() : device_->fence();
}

std::unique_ptr<Operation> SimCollective::start(SimCall call) {
  call.rank = rank_;
  auto shared = std::make_shared<SimCall>(std::move(call));
  if (device_ == nullptr) {
    return std::make_unique<PolledOperation>(world_->meetings, Lane::kData, std::move(shared));
  }
  return std::make_unique<EnqueuedOperation>(world_->meetings, *device_, std::move(shared));
}

}  // namespace hvd
