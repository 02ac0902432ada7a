#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/clock.h"

namespace hvd::engine {

// The state of a doorbell: may lie in memory that several processes share.
struct DoorbellState {
  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> listeners{0};  // bits of Listener: whom a ring wakes
};

// What sleeps on a doorbell: the thread it belongs to, or one that does its work for a while.
enum class Listener : std::uint32_t { kOwner = 1, kLoopOwner = 2 };

// What a coordinator sleeps on: submissions, control messages and peers' data all ring it. A futex,
// so that ringing costs no system call while no thread listens. Any number of threads ring.
class Doorbell {
 public:
  // Rings through `state`, which must outlive this object.
  explicit Doorbell(DoorbellState& state) noexcept : state_(&state) {}

  void ring() noexcept;
  // Read this before looking for work; a ring after it makes sleep() return at once.
  std::uint32_t rings() const noexcept { return state_->rings.load(std::memory_order_acquire); }

  // From now on rings wake those who sleep as `who`; until ignore().
  void listen(Listener who) noexcept;
  void ignore(Listener who) noexcept;
  // Sleeps until a ring after `seen` was read, or until the deadline. A ring that came
  // while `who` did not listen may go unnoticed until the deadline.
  void sleep(std::uint32_t seen, TimePoint deadline, Listener who) noexcept;
  // Listens for good, and sleeps. Several threads may.
  void wait_until(std::uint32_t seen, TimePoint deadline) noexcept {
    listen(Listener::kOwner);
    sleep(seen, deadline, Listener::kOwner);
  }

 private:
  DoorbellState* state_;
};

}  // namespace hvd::engine
