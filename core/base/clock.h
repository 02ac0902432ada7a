#pragma once

#include <chrono>

namespace hvd {

// Monotonic. Pure code gets a TimePoint as an argument and never asks the clock itself.
using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

inline double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace hvd
