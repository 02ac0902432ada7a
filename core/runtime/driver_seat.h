#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/runtime/doorbell.h"

namespace hvd {

class Completion;

// A loop that another thread than its own may run for a while.
class Drivable {
 public:
  // Runs it until `awaited` has ended, or until the deadline. The number of rings from which its
  // own thread may sleep on; empty if there is work that does not ring.
  virtual std::optional<std::uint32_t> drive(const Completion& awaited,
                                             TimePoint deadline) noexcept = 0;

 protected:
  ~Drivable() = default;
};

// Who runs a coordinator's loop: its own thread, or one that waits for a handle, so that no thread
// has to wake another for what the waiting one can do itself. One at a time: who has the seat.
// Thread-safe.
//
// Submissions ring the coordinator's bell, but not one by one while they come in a stream that
// nobody waits for: being woken for each would cost more than they do. Then its thread naps for a
// moment, and takes what came together.
class DriverSeat {
 public:
  // The calling thread waits at once for what it submits while this lives: nobody has to be woken
  // for it.
  class WaitsAtOnce {
   public:
    WaitsAtOnce() noexcept;
    ~WaitsAtOnce();
    WaitsAtOnce(const WaitsAtOnce&) = delete;
    WaitsAtOnce& operator=(const WaitsAtOnce&) = delete;
  };

  // Both must live until close(). The coordinator's thread has the seat. `others_drive`: whether
  // threads that wait may have it at all.
  DriverSeat(Doorbell bell, Drivable& coordinator, bool others_drive) noexcept
      : bell_(bell), coordinator_(coordinator), others_drive_(others_drive) {}

  // Whether who has submitted something rings the bell.
  bool submissions_ring() const noexcept;
  // A thread that is about to wait, and counts as a BlockedThread: runs the loop, or if somebody
  // else does, tells them to look for submissions.
  void drive(const Completion& awaited, TimePoint deadline) noexcept;

  // The coordinator's thread: leaves the seat, sleeps until the bell rings after `seen` was read or
  // until the deadline, and has the seat again.
  void rest(std::uint32_t seen, TimePoint deadline) noexcept;
  // The same, and submissions do not ring unless a thread is blocked or becomes so.
  void nap(std::uint32_t seen, TimePoint deadline) noexcept;
  // Of who has the seat: when the coordinator's thread is going to look although nobody rings.
  TimePoint rests_until() const noexcept { return rests_until_; }
  // Bell and coordinator are about to go. The coordinator's thread has the seat, for good.
  void close() noexcept;

 private:
  bool take() noexcept { return !taken_.exchange(true, std::memory_order_seq_cst); }
  void leave() noexcept { taken_.store(false, std::memory_order_seq_cst); }
  void ring() noexcept;

  Doorbell bell_;
  Drivable& coordinator_;
  const bool others_drive_;
  std::atomic<bool> taken_{true};
  std::atomic<bool> napping_{false};
  TimePoint rests_until_ = TimePoint::max();  // belongs to who has the seat
  Mutex mutex_;
  bool closed_ HVD_GUARDED_BY(mutex_) = false;
};

}  // namespace hvd
