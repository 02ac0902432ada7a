#include "ops/nccl/launch_queue.h"

#include <utility>

namespace hvd {

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

}  // namespace hvd
