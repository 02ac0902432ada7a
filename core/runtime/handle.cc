#include "core/runtime/handle.h"

#include <utility>

#include "core/runtime/completion.h"
#include "core/runtime/wake/waiting.h"
#include "core/system/interruptible_waits.h"

namespace hvd::engine {
namespace {

constexpr int kLooksPerClockRead = 32;

const Outcome& nothing() {
  static const Outcome none;
  return none;
}

}  // namespace

Completion::~Completion() {
  call_continuations();
}

bool Completion::finish(Status status, Outcome outcome, Parts parts) {
  if (!end(std::move(status), std::move(outcome), std::move(parts))) return false;
  wake();
  return true;
}

bool Completion::end(Status status, Outcome outcome, Parts parts) {
  std::uint32_t before = kPending;
  while (!state_.compare_exchange_weak(before, kEnding, std::memory_order_acq_rel)) {
    if (before == kEnding || before == kDone) return false;
    if (before != kOrdering) continue;
    relax();  // another thread is about to have it ordered
    before = kEnqueued;
  }
  status_ = std::move(status);
  if (before == kPending) outcome_ = std::move(outcome);
  parts_ = std::move(parts);
  state_.store(kDone, std::memory_order_release);
  return true;
}

void Completion::wake() noexcept {
  Doorbell(finished_).ring();
  if (continuations_.load() != nullptr && done()) call_continuations();
}

// Either wake() finds what is put into the list here, or this finds the end: both write, then read
// what the other one writes, and ring() as well as the exchange is a full barrier in between.
void Completion::then(std::shared_ptr<CallbackQueue> queue, std::function<void()> callback) {
  throw_if_forked(generation_);
  auto* const next = new Continuation{std::move(queue), std::move(callback), continuations_.load()};
  while (!continuations_.compare_exchange_weak(next->before, next)) {
  }
  if (state_.load() == kDone) call_continuations();
}

void Completion::call_continuations() {
  Continuation* first = nullptr;
  for (Continuation* next = continuations_.exchange(nullptr); next != nullptr;) {
    first = std::exchange(next, std::exchange(next->before, first));
  }
  while (first != nullptr) {
    const std::unique_ptr<Continuation> each(std::exchange(first, first->before));
    each->queue->push(std::move(each->callback));
  }
}

void Completion::order(Fence past, Outcome outcome) {
  std::uint32_t expected = kPending;
  if (!state_.compare_exchange_strong(expected, kOrdering, std::memory_order_acq_rel)) return;
  past_ = std::move(past);
  outcome_ = std::move(outcome);
  state_.store(kEnqueued, std::memory_order_release);
}

bool Completion::wait_until(TimePoint deadline, Until until) {
  if (is(until)) return true;
  throw_if_forked(generation_);
  while (Clock::now() < deadline) {
    InterruptibleWaits::look();
    const TimePoint look = InterruptibleWaits::look_before(deadline);
    const BlockedThread blocked;
    if (ownership_ != nullptr) ownership_->run_until(*this, look);
    if (is(until) || spin(until) || block_until(look, until)) return true;
  }
  return is(until);
}

bool Completion::spin(Until until) const noexcept {
  const Duration limit = waiter_spin();
  if (limit == Duration::zero()) return false;
  const TimePoint deadline = Clock::now() + limit;
  do {
    for (int look = 0; look < kLooksPerClockRead; ++look) {
      if (is(until)) return true;
      relax();
    }
  } while (Clock::now() < deadline);
  return false;
}

bool Completion::block_until(TimePoint deadline, Until until) {
  Doorbell bell(finished_);
  for (;;) {
    const std::uint32_t seen = bell.rings();
    if (is(until)) return true;
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

const Outcome& Completion::wait_enqueued(Fence& past) {
  wait_until(TimePoint::max(), Until::kEnqueued);
  if (done()) return wait();
  past = past_;
  return outcome_;
}

Handle::Handle(std::shared_ptr<Completion> completion) : completion_(std::move(completion)) {
  if (completion_ != nullptr) completion_->hold();
}

Handle::Handle(const Handle& other) : Handle(other.completion_) {}

Handle& Handle::operator=(const Handle& other) {
  return *this = Handle(other);
}

Handle& Handle::operator=(Handle&& other) noexcept {
  Handle taken(std::move(other));
  completion_.swap(taken.completion_);
  return *this;
}

Handle::~Handle() {
  if (completion_ != nullptr) completion_->let_go();
}

bool Handle::done() const {
  return completion_ == nullptr || completion_->done();
}

bool Handle::wait_for(Duration limit) const {
  return completion_ == nullptr || completion_->wait_until(Clock::now() + limit);
}

void Handle::then(std::shared_ptr<CallbackQueue> queue, std::function<void()> callback) const {
  if (completion_ == nullptr) {
    queue->push(std::move(callback));
  } else {
    completion_->then(std::move(queue), std::move(callback));
  }
}

bool Handle::ordered_within(Duration limit) const {
  return completion_ == nullptr ||
         completion_->wait_until(Clock::now() + limit, Completion::Until::kEnqueued);
}

const Outcome& Handle::wait() const {
  return completion_ == nullptr ? nothing() : completion_->wait();
}

const Outcome& Handle::wait_enqueued(Fence& past) const {
  return completion_ == nullptr ? nothing() : completion_->wait_enqueued(past);
}

}  // namespace hvd::engine
