#include "core/base/clock.h"

namespace hvd {
namespace {

Duration drift(Duration age) {
  constexpr double kDriftPerSecond = 15e-6;
  return std::chrono::duration_cast<Duration>(age * kDriftPerSecond);
}

}  // namespace

void ClockOffset::add(const ClockSample& sample) {
  if (sample.arrived < sample.asked) return;
  const Duration half = (sample.arrived - sample.asked) / 2;
  if (full()) latest_.pop_front();
  latest_.push_back({{sample.answered - (sample.asked + half), half}, sample.arrived});
}

std::optional<ClockEstimate> ClockOffset::at(TimePoint now) const {
  std::optional<ClockEstimate> best;
  for (const Measured& measured : latest_) {
    ClockEstimate estimate = measured.estimate;
    if (now > measured.when) estimate.error += drift(now - measured.when);
    if (!best || estimate.error <= best->error) best = estimate;
  }
  return best;
}

}  // namespace hvd
