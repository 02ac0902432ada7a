#pragma once

#include "core/ports/doorbell.h"

namespace hvd {

// A rank that has nothing in flight, and computes, is patient: what others announce cannot go on
// before it submits something too, and each wake takes its core from what it computes. It says so
// beside the listeners of its doorbell. A rank that spins anyway then shows its message without
// waking anyone, and rings a moment later if nobody has read it.
inline constexpr Listener kDefersWake{4};
inline constexpr Duration kWakeDelay = std::chrono::microseconds(100);

inline bool defers_wake(const DoorbellState& state) noexcept {
  return (state.listeners.load(std::memory_order_seq_cst) & static_cast<unsigned>(kDefersWake)) !=
         0;
}

}  // namespace hvd
