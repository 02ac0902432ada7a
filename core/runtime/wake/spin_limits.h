#pragma once

#include "core/base/clock.h"

namespace hvd {

// How long a thread looks for an event before it sleeps until one comes. A wake costs some 40 us if
// the sleeper's core is idle, 1 or 2 us if it is busy; a spin costs nothing only where nobody else
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
// the coordinator has the core of the threads that wait, and of nobody else.
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

}  // namespace hvd
