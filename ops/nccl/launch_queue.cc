#include "ops/nccl/launch_queue.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/system/process.h"

namespace hvd::engine {
namespace {

constexpr Duration kPumpInterval = std::chrono::microseconds(50);
constexpr Duration kWatchInterval = std::chrono::milliseconds(10);
constexpr Duration kStatusInterval = std::chrono::microseconds(100);

// An event is also reached when its work was aborted: whoever waits has to know.
class NcclFence final : public CudaEvent {
 public:
  NcclFence(const CudaStream& stream, std::shared_ptr<NcclCommunicator> communicator)
      : CudaEvent(stream.device(), stream.get()), communicator_(std::move(communicator)) {}

  void wait() override {
    CudaEvent::wait();
    communicator_->check_usable();
  }

 private:
  std::shared_ptr<NcclCommunicator> communicator_;
};

// What the streams cannot wait for: no event of CUDA's.
bool is_foreign(const Fence& fence) {
  return std::dynamic_pointer_cast<CudaEvent>(fence.state()) == nullptr;
}

bool passed_within(const Fence& fence, Duration limit) {
  for (const TimePoint deadline = Clock::now() + limit; !fence.reached();) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kStatusInterval);
  }
  return true;
}

}  // namespace

LaunchQueue::~LaunchQueue() {
  if (retired_.empty()) return;
  try {
    unpacking_->wait_for(moving_->fence());
    if (passed_within(unpacking_->fence(), kGpuTeardownLimit)) return;
  } catch (const Error&) {
    return;  // the device failed: nothing runs there any more
  }
  for (auto& memory : retired_) leak_until_exit(std::move(memory));
}

void LaunchQueue::add(std::shared_ptr<Call> call) {
  calls_.push_back(std::move(call));
}

bool LaunchQueue::may_begin(Call& call) {
  if (!call.communicator->settled()) return false;
  for (const Fence& fence : call.ready) {
    if (is_foreign(fence) && !fence.reached()) return false;
  }
  if (!call.after_all) return true;
  if (!std::exchange(draining_, true)) drained_ = unpacking_->fence();
  if (!drained_.reached()) return false;
  draining_ = false;
  return true;
}

void LaunchQueue::begin(Call& call) {
  call.begun = Clock::now();
  for (const Fence& fence : call.ready) {
    packing_->wait_for(fence);  // later calls are ready then, too
    moving_->wait_for(fence);
  }
  if (call.pack != nullptr) {
    call.pack(*packing_);
    moving_->wait_for(packing_->fence());
  }
  call.begin(*call.communicator, moving_->get());
}

void LaunchQueue::end(Call& call) {
  unpacking_->wait_for(moving_->fence());
  if (call.unpack != nullptr) call.unpack(*unpacking_);
  // Here: what is left of the call ends on the completion thread, which must free no memory.
  call.pack = nullptr;
  call.begin = nullptr;
  call.unpack = nullptr;
  call.over = true;
}

void LaunchQueue::pump() {
  while (!calls_.empty()) {
    Call& call = *calls_.front();
    if (call.begun == TimePoint{}) {
      if (!may_begin(call)) return;
      begin(call);
    }
    if (!call.communicator->settled()) return;
    if (call.makes != nullptr && !call.makes->settled()) return;
    end(call);
    calls_.pop_front();
  }
}

Fence LaunchQueue::fence(const std::shared_ptr<NcclCommunicator>& communicator,
                         const std::shared_ptr<NcclCommunicator>& child) {
  Fence fence(std::make_shared<NcclFence>(*unpacking_, communicator));
  in_flight_.push_back({communicator, child, fence, Clock::now()});
  return fence;
}

Fence LaunchQueue::awaited_fence(const std::shared_ptr<NcclCommunicator>& communicator) {
  Fence awaited = fence(communicator);
  in_flight_.back().awaited = true;
  return awaited;
}

Fence LaunchQueue::write(const void* from, void* to, std::size_t bytes) {
  writes_.write(*packing_, from, to, bytes);
  return packing_->fence();
}

void LaunchQueue::retire(std::shared_ptr<const void> memory) {
  retired_.push_back(std::move(memory));
  past_retired_.reset();
}

void LaunchQueue::check(NcclCommunicator& communicator, const char* what, Duration taken) const {
  communicator.settled();  // throws if it failed
  if (limit_ == Duration::zero() || taken < limit_) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(taken).count();
  throw StalledError(std::string(what) + " CUDA device " + std::to_string(moving_->device()) +
                     " for " + std::to_string(seconds) + " s (rank " +
                     std::to_string(communicator.rank()) + " of " +
                     std::to_string(communicator.size()) + " of its process set)");
}

// The fences of a child's work ask its parent, and are reached as soon as the child is aborted.
void LaunchQueue::abort(NcclCommunicator& communicator) {
  for (const InFlight& work : in_flight_) {
    if (work.child.get() == &communicator) work.communicator->abort();
  }
  communicator.abort();
}

void LaunchQueue::watch(TimePoint now) {
  while (!in_flight_.empty() && in_flight_.front().fence.reached()) in_flight_.pop_front();
  const auto look_after = [&](NcclCommunicator& communicator, const char* what, TimePoint since) {
    try {
      check(communicator, what, now - since);
    } catch (...) {
      abort(communicator);
      throw;
    }
  };
  for (const InFlight& work : in_flight_) {
    const char* const what = "work of NCCL has been on the stream of";
    look_after(*work.communicator, what, work.since);
    if (work.child != nullptr) look_after(*work.child, what, work.since);
  }
  if (!calls_.empty() && calls_.front()->begun != TimePoint{}) {
    const Call& call = *calls_.front();
    look_after(*call.communicator, "NCCL has been starting a call on", call.begun);
  }
  free_retired();
}

// A call is over when it is enqueued, so the streams may still be at work.
void LaunchQueue::free_retired() {
  if (retired_.empty()) return;
  if (!calls_.empty() || !in_flight_.empty()) {
    past_retired_.reset();
  } else if (!past_retired_) {
    past_retired_ = end_of_streams();
  }
  if (!past_retired_ || !past_retired_->reached()) return;
  retired_.clear();
  past_retired_.reset();
}

std::optional<Duration> LaunchQueue::poll_interval() const {
  if (!calls_.empty()) return kPumpInterval;
  if (in_flight_.empty() && retired_.empty()) return std::nullopt;
  const bool awaited = std::any_of(in_flight_.begin(), in_flight_.end(),
                                   [](const InFlight& work) { return work.awaited; });
  return awaited ? kPumpInterval : kWatchInterval;
}

}  // namespace hvd::engine
