#pragma once

#include <exception>

#include "core/base/clock.h"

namespace hvd::engine {

// While one lives, what the calling thread waits for in this library can be ended by its program,
// Python's Ctrl-C for instance: `check` is called ten times per second of waiting, and what it
// throws the wait throws. From then on every wait of the scope that would block throws the same, so
// that what tidies up does not wait either. Scopes of one thread are nested; the innermost
// counts.
class InterruptibleWaits {
 public:
  using Check = void (*)();

  explicit InterruptibleWaits(Check check) noexcept;
  ~InterruptibleWaits();
  InterruptibleWaits(const InterruptibleWaits&) = delete;
  InterruptibleWaits& operator=(const InterruptibleWaits&) = delete;

  // For those that wait, with or without a scope: a loop that sleeps until look_before(deadline) at
  // most, and then looks. `look` throws what `check` did; `ended` tells instead.
  static TimePoint look_before(TimePoint deadline) noexcept;
  static void look();
  static bool ended() noexcept;

 private:
  const Check check_;
  InterruptibleWaits* const outer_;
  TimePoint next_look_ = TimePoint::max();  // not planned yet
  std::exception_ptr interruption_;
};

}  // namespace hvd::engine
