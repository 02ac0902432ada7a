#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>

namespace hvd {

// Monotonic. Pure code gets a TimePoint as an argument and never asks the clock itself.
using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

inline double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Of what may be absent.
template <typename Time>
std::optional<Time> earlier(std::optional<Time> a, std::optional<Time> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// One question to a clock elsewhere and its answer.
struct ClockSample {
  TimePoint asked;     // this clock, before the question left
  TimePoint answered;  // that clock, when it was there
  TimePoint arrived;   // this clock, when the answer was here
};

// that clock = this clock + offset, within +-error.
struct ClockEstimate {
  Duration offset = Duration::zero();
  Duration error = Duration::zero();

  friend bool operator==(const ClockEstimate&, const ClockEstimate&) = default;
};

// Estimates how far another clock is ahead of this one: a clock that answered is known to within
// half of the round trip (Cristian 1989), so the fastest of the latest answers counts. Pure.
class ClockOffset {
 public:
  static constexpr std::size_t kSamples = 8;

  // A sample that arrived before it was asked is ignored.
  void add(const ClockSample& sample);
  // The best of the latest kSamples at `now`; errors grow with age by 15 us per second, as clocks
  // drift apart (RFC 5905, PHI). Empty before the first sample.
  std::optional<ClockEstimate> at(TimePoint now) const;
  bool full() const { return latest_.size() == kSamples; }

 private:
  struct Measured {
    ClockEstimate estimate;
    TimePoint when;
  };

  std::deque<Measured> latest_;
};

// "60 s", for people.
inline std::string seconds_text(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", to_seconds(duration));
  return text;
}

}  // namespace hvd
