#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/clock.h"

namespace hvd {

// The state of a doorbell: may lie in memory that several processes share.
struct DoorbellState {
  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> sleepers{0};
};

// What a coordinator sleeps on: submissions, control mail and peers' data all ring it. A futex, so
// that ringing costs no system call while nobody sleeps. One thread waits, any number ring.
class Doorbell {
 public:
  // Rings through `state`, which must outlive this object.
  explicit Doorbell(DoorbellState& state) noexcept : state_(&state) {}

  void ring() noexcept;
  // Read this before looking for work; a ring after it makes wait_until return at once.
  std::uint32_t rings() const noexcept { return state_->rings.load(std::memory_order_acquire); }
  // Sleeps until somebody rings after `seen` was read, or until the deadline.
  void wait_until(std::uint32_t seen, TimePoint deadline) noexcept;

 private:
  DoorbellState* state_;
};

}  // namespace hvd
