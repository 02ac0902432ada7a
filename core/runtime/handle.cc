#include "core/runtime/handle.h"

#include <utility>

#include "core/base/interruptible_waits.h"
#include "core/runtime/blocked_time.h"
#include "core/runtime/completion.h"
#include "core/runtime/spin_limits.h"

namespace hvd {
namespace {

constexpr int kLooksPerClockRead = 32;

}  // namespace

bool Completion::finish(Status status, Outcome outcome, Parts parts) {
  if (!end(std::move(status), std::move(outcome), std::move(parts))) return false;
  wake();
  return true;
}

bool Completion::end(Status status, Outcome outcome, Parts parts) {
  std::uint32_t expected = kPending;
  if (!state_.compare_exchange_strong(expected, kEnding, std::memory_order_acq_rel)) return false;
  status_ = std::move(status);
  outcome_ = std::move(outcome);
  parts_ = std::move(parts);
  state_.store(kDone, std::memory_order_release);
  return true;
}

bool Completion::wait_until(TimePoint deadline) {
  if (done()) return true;
  throw_if_forked(generation_);
  while (Clock::now() < deadline) {
    InterruptibleWaits::look();
    const TimePoint until = InterruptibleWaits::look_before(deadline);
    const BlockedThread blocked;
    if (seat_ != nullptr) seat_->drive(*this, until);
    if (done() || spin() || block_until(until)) return true;
  }
  return done();
}

bool Completion::spin() const noexcept {
  const Duration limit = waiter_spin();
  if (limit == Duration::zero()) return false;
  const TimePoint deadline = Clock::now() + limit;
  do {
    for (int look = 0; look < kLooksPerClockRead; ++look) {
      if (done()) return true;
      relax();
    }
  } while (Clock::now() < deadline);
  return false;
}

bool Completion::block_until(TimePoint deadline) {
  Doorbell bell(finished_);
  for (;;) {
    const std::uint32_t seen = bell.rings();
    if (done()) return true;
    throw_if_forked(generation_);
    if (Clock::now() >= deadline) return false;
    bell.wait_until(seen, deadline);
  }
}

const Outcome& Completion::wait() {
  wait_until(TimePoint::max());
  if (!parts_dropped_.test_and_set(std::memory_order_acq_rel)) parts_ = {};
  status_.throw_if_error();
  return outcome_;
}

bool Handle::done() const {
  return completion_ == nullptr || completion_->done();
}

bool Handle::wait_for(Duration limit) const {
  return completion_ == nullptr || completion_->wait_until(Clock::now() + limit);
}

const Outcome& Handle::wait() const {
  static const Outcome nothing;
  return completion_ == nullptr ? nothing : completion_->wait();
}

}  // namespace hvd
