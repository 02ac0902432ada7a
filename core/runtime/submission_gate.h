#pragma once

#include <atomic>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/runtime/doorbell.h"

namespace hvd {

// Between those who submit and the coordinator. Submissions ring its bell, but not one by one while
// they come in a stream that nobody waits for: being woken for each would cost more than they do.
// Then the coordinator naps for a moment, and takes what came together. Thread-safe.
class SubmissionGate {
 public:
  // `bell` must live until close().
  explicit SubmissionGate(Doorbell& bell) : bell_(&bell) {}

  // Whether who submits rings the bell.
  bool rings() const noexcept { return !napping_.load(std::memory_order_seq_cst); }
  // The calling thread is about to wait for something, and counts as a BlockedThread.
  void urge() noexcept;

  // The coordinator: sleeps until the bell rings after `seen` was read, at most until the deadline.
  // Submissions do not ring unless a thread is blocked or becomes so.
  void nap(std::uint32_t seen, TimePoint deadline) noexcept;
  // The bell is about to go: urge() does nothing any more.
  void close() noexcept;

 private:
  std::atomic<bool> napping_{false};
  Mutex mutex_;
  Doorbell* bell_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
