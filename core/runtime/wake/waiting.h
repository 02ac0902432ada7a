#pragma once

#include "core/base/clock.h"
#include "core/ports/doorbell.h"

namespace hvd::engine {

// How long a thread looks for an event before it sleeps until one comes. A wake costs some 40 us if
// the sleeper's core is idle, 1 or 2 us if it is busy; a spin costs nothing only where nothing else
// wants the core.
struct SpinLimits {
  Duration coordinator_waited_for = Duration::zero();  // while a thread waits for a handle
  Duration coordinator = Duration::zero();             // while none does
  Duration waiter = Duration::zero();                  // a thread that waits for a handle
  bool yields = false;                                 // after each look, to whom it waits for
  // Within this time a thread that waited is likely to wait again: no thread is woken for what it
  // can do then.
  Duration returns = std::chrono::microseconds(50);
};

// The limits for a rank that has this many cores for itself. A rank with less than one gives the
// core away after each look: it would take the time from the rank it waits for. With less than two
// the coordinator has the core of the threads that wait, and of no others.
SpinLimits spin_limits(double cores_per_rank) noexcept;

// Cores that this process may use, as far as the `local_size` ranks of this host leave them to it.
double cores_per_rank(int local_size) noexcept;

// SpinLimits::waiter of this process. Any thread.
void set_waiter_spin(Duration limit) noexcept;
Duration waiter_spin() noexcept;

// Tells the core that this is a loop that waits.
inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// A thread of the program that is blocked in Handle::wait() or wait_for(), for as long as this
// lives.
class BlockedThread {
 public:
  BlockedThread() noexcept;
  ~BlockedThread();
  BlockedThread(const BlockedThread&) = delete;
  BlockedThread& operator=(const BlockedThread&) = delete;

 private:
  const TimePoint begin_;
};

// A call whose end a callback waits for, and maybe no thread, for as long as this lives.
class AwaitedByCallback {
 public:
  AwaitedByCallback() noexcept;
  ~AwaitedByCallback();
  AwaitedByCallback(const AwaitedByCallback&) = delete;
  AwaitedByCallback& operator=(const AwaitedByCallback&) = delete;
};

// Whether there is one in this process. Any thread.
bool callback_waits() noexcept;

// How many blocked threads there are in this process now. Sequentially consistent, as are
// constructor and destructor.
int blocked_threads() noexcept;
// How long threads of this process were blocked: what communication cost the program beyond what it
// could hide. Summed over threads that are no longer blocked. Thread-safe.
Duration blocked_time() noexcept;

// A rank that has nothing in flight, and computes, defers wake-ups: what others announce cannot go
// on before it submits something too, and each wake takes its core from what it computes. It says
// so beside the listeners of its doorbell. A rank that spins anyway then shows its message without
// waking anyone, and rings a moment later if it was not read.
inline constexpr Listener kDefersWake{4};
inline constexpr Duration kWakeDelay = std::chrono::microseconds(100);

inline bool defers_wake(const DoorbellState& state) noexcept {
  return (state.listeners.load(std::memory_order_seq_cst) & static_cast<unsigned>(kDefersWake)) !=
         0;
}

}  // namespace hvd::engine
