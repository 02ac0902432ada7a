#pragma once

#include <cstddef>

#include "core/base/clock.h"

namespace hvd::engine::host {

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

// Writes memory that other cores have read and will read next. Through the caches, every line has
// to be taken back from the cores that have it: 1 to 7 ns where they share a cache, 27 ns where
// they do not, one after the other (AMD EPYC). There it is four times faster to write past the
// caches; elsewhere up to twice as slow. Which of the two holds is measured in passing, again and
// again, since virtual machines move between cores.
class StreamingCopy {
 public:
  // Of this many bytes in all.
  explicit StreamingCopy(std::size_t bytes) noexcept;
  // Makes the copy visible to threads that see this one's later writes.
  ~StreamingCopy();
  StreamingCopy(const StreamingCopy&) = delete;
  StreamingCopy& operator=(const StreamingCopy&) = delete;

  void copy(void* to, const void* from, std::size_t bytes) const noexcept;

  // Whether writing past the caches is the faster way at present, as far as this process knows.
  static bool past_the_caches() noexcept;
  // Records how long a copy of `bytes` through the caches took.
  static void measured(std::size_t bytes, Duration time) noexcept;

 private:
  const std::size_t bytes_;
  const bool streams_;
  const TimePoint begin_;
};

}  // namespace hvd::engine::host
