#pragma once

#include "core/base/clock.h"

namespace hvd {

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

// How many there are in this process now. Sequentially consistent, as are constructor and
// destructor.
int blocked_threads() noexcept;
// How long threads of this process were blocked: what communication cost the program beyond what it
// could hide. Summed over threads that are no longer blocked. Thread-safe.
Duration blocked_time() noexcept;

}  // namespace hvd
