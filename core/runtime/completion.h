#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/runtime/doorbell.h"
#include "core/runtime/driver_seat.h"
#include "core/runtime/fork_guard.h"
#include "core/runtime/handle.h"
#include "core/runtime/submission.h"

namespace hvd {

// Where the engine writes the end of a submission. A doorbell and no mutex: ending one that nobody
// waits for costs no system call. Thread-safe.
class Completion {
 public:
  explicit Completion(std::shared_ptr<DriverSeat> seat = nullptr) : seat_(std::move(seat)) {}

  // The first call decides and returns true; later ones change nothing. The leases of `parts` are
  // dropped by the first thread that waits, or with the last handle: freeing user memory may need
  // locks that the coordinator must never wait for.
  bool finish(Status status, Outcome outcome = {}, Parts parts = {});
  // The same in two steps, for many at once: a thread that waits for all of them wakes when the
  // last has ended. wake() follows on each that end() ended.
  bool end(Status status, Outcome outcome = {}, Parts parts = {});
  void wake() noexcept { Doorbell(finished_).ring(); }

  bool done() const noexcept { return state_.load(std::memory_order_acquire) == kDone; }
  // Blocks until finish(), or until the deadline; true when finished. Throws AbortedError in a
  // forked child, and what ends the waits of this thread (InterruptibleWaits), also in wait().
  bool wait_until(TimePoint deadline);
  // Blocks until finish(); throws its status, every time. Throws AbortedError in a forked child.
  const Outcome& wait();

 private:
  bool block_until(TimePoint deadline);
  bool spin() const noexcept;

  static constexpr std::uint32_t kPending = 0, kEnding = 1, kDone = 2;

  const std::shared_ptr<DriverSeat> seat_;  // of the engine this was submitted to; may be null
  std::atomic<std::uint32_t> state_{kPending};
  DoorbellState finished_;
  std::atomic_flag parts_dropped_;
  const std::uint32_t generation_ = fork_generation();
  // Written while kEnding, constant from kDone on.
  Status status_;
  Outcome outcome_;
  Parts parts_;
};

}  // namespace hvd
