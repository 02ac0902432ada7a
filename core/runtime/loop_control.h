#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/ports/doorbell.h"

namespace hvd::engine {

// Between a coordinator's loop and other threads: commands for its next turn, that this rank
// leaves, and how far the loop is. Thread-safe.
class LoopControl {
 public:
  // `bell` wakes the loop.
  explicit LoopControl(Doorbell bell) : bell_(bell) {}

  // -- other threads
  void wake() noexcept { bell_.ring(); }
  void post(std::function<void()> command);
  void leave() noexcept;
  // Waits for end(). False if the loop made no turn for `limit`, since it is stuck inside a port.
  // When the InterruptibleWaits of this thread end it is false at once if `interruptible`, else
  // after `limit` whatever the loop does.
  bool wait_for_end(Duration limit, bool interruptible) noexcept;
  bool ended() const noexcept { return ended_; }

  // -- the loop
  void run_commands();
  bool leave_asked() const noexcept { return leave_asked_; }
  void begin_turn() noexcept { turns_.fetch_add(1, std::memory_order_relaxed); }
  void end() noexcept;

 private:
  Doorbell bell_;
  Mutex mutex_;
  std::vector<std::function<void()>> commands_ HVD_GUARDED_BY(mutex_);
  std::atomic<bool> any_command_{false};
  std::atomic<bool> leave_asked_{false};
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<bool> ended_{false};
  DoorbellState end_state_;
  Doorbell end_bell_{end_state_};
};

}  // namespace hvd::engine
