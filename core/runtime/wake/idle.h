#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <thread>

#include "core/base/clock.h"
#include "core/ports/doorbell.h"
#include "core/runtime/wake/loop_ownership.h"
#include "core/runtime/wake/waiting.h"

namespace hvd::engine {

// What a coordinator's loop does when nothing moved: it looks on for a while, lets submissions of a
// stream come together, or sleeps. Used by the thread that runs the loop.
class IdleLoop {
 public:
  IdleLoop(Doorbell bell, LoopOwnership& ownership, const SpinLimits& limits)
      : bell_(bell), ownership_(ownership), limits_(limits) {}

  // Submissions are likely to follow each other for a moment.
  void expect_more() noexcept { coalesce_until_ = Clock::now() + kCoalesce; }

  // Looks for a ring past `seen`. False when it is time to sleep: `active` is when something moved
  // last, `polled` how often to look for what does not ring, `in_flight()` whether a thread may be
  // waiting for something.
  bool spin(std::uint32_t seen, TimePoint active, std::optional<Duration> polled,
            const auto& in_flight) const {
    const bool polls = polled.value_or(Duration::max()) <= kWorthPolling;
    // A callback's thread has other work while it waits, which may want this core.
    const bool yields = limits_.yields || blocked_threads() == 0;
    const int looks = yields ? 1 : kPollsPerClockRead;
    while (may_spin(active, in_flight)) {
      for (int look = 0; look < looks; ++look) {
        if (bell_.rings() != seen) return true;
        yields ? std::this_thread::yield() : relax();
      }
      if (polls) return true;
    }
    return false;
  }

  // The coordinator's thread, which leaves the loop to others meanwhile.
  void rest(std::uint32_t seen, TimePoint now, TimePoint deadline) noexcept {
    if (now < coalesce_until_) {
      ownership_.coalesce(std::min(deadline, coalesce_until_));
    } else {
      ownership_.idle(seen, deadline);
    }
  }

 private:
  // How long submissions of a stream may wait for each other while no thread waits for them.
  static constexpr Duration kCoalesce = std::chrono::microseconds(200);
  // What is polled less often may sleep.
  static constexpr Duration kWorthPolling = std::chrono::microseconds(100);
  static constexpr int kPollsPerClockRead = 32;

  // A thread that waits leaves its core to this one, until it has what it waits for: it must wake
  // then.
  bool may_spin(TimePoint active, const auto& in_flight) const {
    const bool waited_for = in_flight() && (blocked_threads() > 0 || callback_waits());
    const Duration limit = waited_for ? limits_.coordinator_waited_for : limits_.coordinator;
    return limit > Duration::zero() && Clock::now() < active + limit;
  }

  const Doorbell bell_;
  LoopOwnership& ownership_;
  const SpinLimits limits_;
  TimePoint coalesce_until_{};
};

}  // namespace hvd::engine
