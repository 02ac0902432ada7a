#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/ports/doorbell.h"

namespace hvd::engine {

class Completion;

// A loop that another thread than its own may run for a while.
class CallerRunLoop {
 public:
  // What a loop that is left for now needs.
  struct Rest {
    std::uint32_t seen;  // the number of rings that it has heard
    TimePoint until;     // when it has to look again without a ring; past = it has work
  };
  // Runs it until `awaited` has ended, or until the deadline.
  virtual Rest run_until(const Completion& awaited, TimePoint deadline) noexcept = 0;

 protected:
  ~CallerRunLoop() = default;
};

// Who owns a coordinator's loop, and so may run it: its own thread, or one that waits for a handle,
// so that no thread has to wake another for what the waiting one can do itself. One at a time.
// Thread-safe.
//
// Threads that wait run the loop again and again, a handle at a time. So they do not wake the
// coordinator's thread each time they leave work behind: it checks by itself a moment after it was
// woken once, and takes the loop when no thread ran it in that moment.
//
// Submissions ring the coordinator's bell, but while they come in a stream that no thread waits for
// it does not listen: being woken for each would cost more than they do. Its thread sleeps for a
// moment, and takes what came together.
class LoopOwnership {
 public:
  // Both must live until close(). The coordinator's thread owns the loop, also before it starts.
  // `others_run`: whether threads that wait may run it at all. A thread that ran it may do so again
  // within `moment`: the coordinator's thread is told to go on only if it would not check by itself
  // until then.
  LoopOwnership(Doorbell bell, CallerRunLoop& coordinator, bool others_run,
                Duration moment = std::chrono::microseconds(50)) noexcept
      : bell_(bell), coordinator_(coordinator), others_run_(others_run), moment_(moment) {}

  bool others_run() const noexcept { return others_run_; }
  // Tells the owner of the loop to look for submissions. Without effect after close().
  void ring() noexcept;
  // A thread that is about to wait, and counts as a BlockedThread: runs the loop, or if another
  // one does, tells that one to look for submissions.
  void run_until(const Completion& awaited, TimePoint deadline) noexcept;

  // The coordinator's thread: leaves the loop, sleeps until the bell rings after `seen` was read or
  // until the deadline, and owns the loop again.
  void idle(std::uint32_t seen, TimePoint deadline) noexcept;
  // The same, but the bell is not heard, unless a thread is blocked.
  void coalesce(TimePoint deadline) noexcept;
  // Bell and coordinator are about to go. The coordinator's thread owns the loop, for good.
  void close() noexcept;

 private:
  bool take() noexcept { return !taken_.exchange(true, std::memory_order_seq_cst); }
  void leave() noexcept { taken_.store(false, std::memory_order_seq_cst); }
  void hand_back(CallerRunLoop::Rest rest) noexcept;
  void take_back() noexcept;
  void wake_owner() noexcept;

  Doorbell bell_;
  CallerRunLoop& coordinator_;
  const bool others_run_;
  const Duration moment_;
  std::atomic<bool> taken_{true};
  // When the coordinator's thread, if it does not own the loop, tries to although no thread
  // rings; past = it was woken. That thread rewrites it after each ring.
  std::atomic<TimePoint> checks_at_{TimePoint::max()};
  std::atomic<TimePoint> last_run_{TimePoint{}};
  Mutex mutex_;
  bool closed_ HVD_GUARDED_BY(mutex_) = false;
};

}  // namespace hvd::engine
