#include "core/runtime/wake/loop_ownership.h"

#include <algorithm>

#include "core/runtime/wake/waiting.h"

namespace hvd::engine {
namespace {

// While a caller runs the loop on and on it checks less and less often, but this often: a thread
// that waits for long would take a fifth of the core from what computes on it.
constexpr Duration kDisplaced = std::chrono::milliseconds(100);

}  // namespace

void LoopOwnership::run_until(const Completion& awaited, TimePoint deadline) noexcept {
  if (!others_run_ || !take()) return ring();
  bell_.ignore(Listener::kOwner);
  auto rest = coordinator_.run_until(awaited, deadline);
  // Peers ring after they have written what this thread may have read already.
  if (rest.until > Clock::now() && bell_.rings() != rest.seen) {
    rest = coordinator_.run_until(awaited, deadline);
  }
  hand_back(rest);
}

// Two threads find each other in one order or the other. The coordinator's thread says when it will
// check before it tries to own the loop; the thread that leaves it reads that afterwards. A thread
// that rings past leave() wakes it, unless it checks in a moment anyway.
void LoopOwnership::hand_back(CallerRunLoop::Rest rest) noexcept {
  const TimePoint now = Clock::now();
  const TimePoint soon = now + moment_;
  last_run_.store(now, std::memory_order_seq_cst);
  const bool listens = checks_at_.load(std::memory_order_seq_cst) > soon;
  if (listens) bell_.listen(Listener::kOwner);
  leave();
  const MutexLock lock(mutex_);  // all that keeps the bell alive for a non-owner
  if (closed_) return;
  const bool rang = bell_.rings() != rest.seen;
  const TimePoint needed = listens && !rang ? std::max(rest.until, soon) : soon;
  if (checks_at_.load(std::memory_order_seq_cst) > needed) wake_owner();
}

void LoopOwnership::idle(std::uint32_t seen, TimePoint deadline) noexcept {
  checks_at_.store(deadline, std::memory_order_seq_cst);
  bell_.listen(Listener::kOwner);
  leave();
  bell_.sleep(seen, deadline, Listener::kOwner);
  take_back();
}

// Nothing is forgotten that does not ring: the coordinator checks everything after it. A
// thread is blocked before it tries to own the loop: one of the two sees the other.
void LoopOwnership::coalesce(TimePoint deadline) noexcept {
  checks_at_.store(deadline, std::memory_order_seq_cst);
  leave();
  for (bool asleep = blocked_threads() == 0; asleep;) {
    const std::uint32_t seen = bell_.rings();
    asleep = checks_at_.load(std::memory_order_seq_cst) == deadline && Clock::now() < deadline;
    if (asleep) bell_.sleep(seen, deadline, Listener::kOwner);
  }
  take_back();
}

void LoopOwnership::take_back() noexcept {
  for (Duration backoff = moment_;; backoff = std::min(2 * backoff, kDisplaced)) {
    const std::uint32_t seen = bell_.rings();  // a ring past leave() is not slept through
    const TimePoint now = Clock::now();
    TimePoint next = last_run_.load(std::memory_order_seq_cst) + moment_;
    if (now < next) {
      checks_at_.store(next, std::memory_order_seq_cst);
      bell_.ignore(Listener::kOwner);
      backoff = moment_;
    } else {
      next = now + backoff;
      checks_at_.store(next, std::memory_order_seq_cst);
      if (take()) break;
    }
    bell_.sleep(seen, next, Listener::kOwner);
  }
  bell_.ignore(Listener::kOwner);
}

void LoopOwnership::close() noexcept {
  const MutexLock lock(mutex_);
  closed_ = true;
}

void LoopOwnership::ring() noexcept {
  const MutexLock lock(mutex_);
  if (closed_) return;
  others_run_ ? bell_.ring() : wake_owner();
}

// Under the mutex, while the bell is there.
void LoopOwnership::wake_owner() noexcept {
  checks_at_.store(TimePoint{}, std::memory_order_seq_cst);  // once is enough
  bell_.listen(Listener::kOwner);
  bell_.ring();
}

}  // namespace hvd::engine
