#include "core/runtime/submission_gate.h"

#include "core/runtime/blocked_time.h"

namespace hvd {

void SubmissionGate::urge() noexcept {
  if (rings()) return;
  const MutexLock lock(mutex_);
  if (bell_ != nullptr) bell_->ring();
}

// Who submits while it naps and does not ring is not forgotten: the coordinator looks for
// submissions after this.
void SubmissionGate::nap(std::uint32_t seen, TimePoint deadline) noexcept {
  Doorbell* bell = nullptr;
  {
    const MutexLock lock(mutex_);
    bell = bell_;
  }
  napping_.store(true, std::memory_order_seq_cst);
  // A thread is blocked before it looks whether the coordinator naps: one of the two sees the
  // other.
  if (blocked_threads() == 0) bell->wait_until(seen, deadline);
  napping_.store(false, std::memory_order_seq_cst);
}

void SubmissionGate::close() noexcept {
  const MutexLock lock(mutex_);
  bell_ = nullptr;
}

}  // namespace hvd
