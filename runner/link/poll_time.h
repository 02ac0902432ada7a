#pragma once

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"

namespace hvd::runner {

// What poll() takes to wait until `time`, a day at most; -1, for ever, for max().
inline int milliseconds_until(TimePoint time) {
  if (time == TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 86'400'000));
}

}  // namespace hvd::runner
