#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/ports/doorbell.h"

namespace hvd {

class Completion;

// A loop that another thread than its own may run for a while.
class CallerRunLoop {
 public:
  // What a loop that is left for now needs.
  struct Rest {
    std::uint32_t seen;  // the number of rings that it has heard
    TimePoint until;     // when it has to look again although nobody rings; past = it has work
  };
  // Runs it until `awaited` has ended, or until the deadline.
  virtual Rest drive(const Completion& awaited, TimePoint deadline) noexcept = 0;

 protected:
  ~CallerRunLoop() = default;
};

// Who runs a coordinator's loop: its own thread, or one that waits for a handle, so that no thread
// has to wake another for what the waiting one can do itself. One at a time: who has the seat.
// Thread-safe.
//
// Threads that drive do so again and again, a handle at a time. So they do not wake the
// coordinator's thread each time they leave work behind: it looks by itself a moment after it was
// woken once, and has the seat when nobody drove in that moment.
//
// Submissions ring the coordinator's bell, but while they come in a stream that nobody waits for it
// does not listen: being woken for each would cost more than they do. Its thread naps for a moment,
// and takes what came together.
class LoopOwnership {
 public:
  // The calling thread waits at once for what it submits while this lives: nobody has to be woken
  // for it.
  class SuppressWakeup {
   public:
    SuppressWakeup() noexcept;
    ~SuppressWakeup();
    SuppressWakeup(const SuppressWakeup&) = delete;
    SuppressWakeup& operator=(const SuppressWakeup&) = delete;
  };

  // Both must live until close(). The coordinator's thread has the seat, also before it starts.
  // `others_drive`: whether threads that wait may have it at all. Who drove may do so again within
  // `moment`: the coordinator's thread is told to go on only if it would not look by itself until
  // then.
  LoopOwnership(Doorbell bell, CallerRunLoop& coordinator, bool others_drive,
                Duration moment = std::chrono::microseconds(50)) noexcept
      : bell_(bell), coordinator_(coordinator), others_drive_(others_drive), moment_(moment) {}

  // Whether who has submitted something rings the bell.
  bool submissions_ring() const noexcept;
  // A thread that is about to wait, and counts as a BlockedThread: runs the loop, or if somebody
  // else does, tells them to look for submissions.
  void drive(const Completion& awaited, TimePoint deadline) noexcept;

  // The coordinator's thread: leaves the seat, sleeps until the bell rings after `seen` was read or
  // until the deadline, and has the seat again.
  void rest(std::uint32_t seen, TimePoint deadline) noexcept;
  // The same, but the bell is not heard, unless a thread is blocked.
  void nap(TimePoint deadline) noexcept;
  // Bell and coordinator are about to go. The coordinator's thread has the seat, for good.
  void close() noexcept;

 private:
  bool take() noexcept { return !taken_.exchange(true, std::memory_order_seq_cst); }
  void leave() noexcept { taken_.store(false, std::memory_order_seq_cst); }
  void hand_back(CallerRunLoop::Rest rest) noexcept;
  void take_back() noexcept;
  void ring() noexcept;
  void wake_owner() noexcept;

  Doorbell bell_;
  CallerRunLoop& coordinator_;
  const bool others_drive_;
  const Duration moment_;
  std::atomic<bool> taken_{true};
  // When the coordinator's thread, if it does not have the seat, tries to have it although nobody
  // rings; past = it was woken. That thread writes it anew after each ring.
  std::atomic<TimePoint> looks_at_{TimePoint::max()};
  std::atomic<TimePoint> driven_until_{TimePoint{}};
  Mutex mutex_;
  bool closed_ HVD_GUARDED_BY(mutex_) = false;
};

}  // namespace hvd
