#pragma once

#include <chrono>

#include "core/base/clock.h"

// For what the product promises only while its process gets time: a test of it that is held up in
// the wrong place sees something else, so it tries again. A broken promise is seen each time.
namespace hvd::engine::test {

// What `run` returned when it was `good`, or the last of 20 times.
template <typename Run, typename Good>
auto first_good(const Run& run, const Good& good) {
  auto result = run();
  for (int i = 1; i < 20 && !good(result); ++i) result = run();
  return result;
}

// The same where `run` takes a limit of time: twice as long each time, up to about 20 s.
template <typename Run, typename Good>
auto first_good_within(Duration limit, const Run& run, const Good& good) {
  auto result = run(limit);
  while (limit < std::chrono::seconds(10) && !good(result)) result = run(limit *= 2);
  return result;
}

}  // namespace hvd::engine::test
