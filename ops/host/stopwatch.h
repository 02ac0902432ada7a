#pragma once

#include "core/base/clock.h"

namespace hvd::host {

// Adds the time of its life to a duration.
class Stopwatch {
 public:
  explicit Stopwatch(Duration& total) : total_(total), start_(Clock::now()) {}
  ~Stopwatch() { total_ += Clock::now() - start_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  Duration& total_;
  TimePoint start_;
};

}  // namespace hvd::host
