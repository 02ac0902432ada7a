#include "ops/nccl/launch_queue.h"

#include <string>
#include <utility>

#include "core/base/status.h"

namespace hvd {
namespace {

constexpr Duration kPumpInterval = std::chrono::microseconds(50);
constexpr Duration kWatchInterval = std::chrono::milliseconds(10);

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

}  // namespace

void LaunchQueue::add(std::shared_ptr<Call> call) {
  calls_.push_back(std::move(call));
}

bool LaunchQueue::may_begin(Call& call) {
  if (!call.communicator->settled()) return false;
  std::erase_if(call.ready, [](const Fence& fence) { return fence.reached(); });
  if (!call.ready.empty()) return false;
  if (!call.after_all) return true;
  if (!std::exchange(draining_, true)) drained_ = stream_.fence();
  if (!drained_.reached()) return false;
  draining_ = false;
  return true;
}

void LaunchQueue::pump() {
  while (!calls_.empty()) {
    Call& call = *calls_.front();
    if (!call.begun) {
      if (!may_begin(call)) return;
      call.begun = true;
      call.begin(*call.communicator, stream_.get());
    }
    if (!call.communicator->settled()) return;
    if (call.makes != nullptr && !call.makes->settled()) return;
    if (call.end != nullptr) call.end(stream_.get());
    call.over = true;
    calls_.pop_front();
  }
}

Fence LaunchQueue::fence(const std::shared_ptr<NcclCommunicator>& communicator) {
  Fence fence(std::make_shared<NcclFence>(stream_, communicator));
  in_flight_.push_back({communicator, fence, Clock::now()});
  return fence;
}

void LaunchQueue::check(const InFlight& work, TimePoint now) const {
  work.communicator->settled();  // throws if it failed
  if (limit_ == Duration::zero() || now - work.since < limit_) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - work.since).count();
  throw StalledError("work of NCCL has been on the stream of CUDA device " +
                     std::to_string(stream_.device()) + " for " + std::to_string(seconds) +
                     " s (rank " + std::to_string(work.communicator->rank()) + " of " +
                     std::to_string(work.communicator->size()) + " of its process set)");
}

void LaunchQueue::watch(TimePoint now) {
  while (!in_flight_.empty() && in_flight_.front().fence.reached()) in_flight_.pop_front();
  for (const InFlight& work : in_flight_) {
    try {
      check(work, now);
    } catch (...) {
      work.communicator->abort();
      throw;
    }
  }
}

std::optional<Duration> LaunchQueue::poll_interval() const {
  if (!calls_.empty()) return kPumpInterval;
  if (!in_flight_.empty()) return kWatchInterval;
  return std::nullopt;
}

}  // namespace hvd
