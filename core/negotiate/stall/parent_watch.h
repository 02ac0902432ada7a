#pragma once

#include <optional>

#include "core/base/clock.h"

namespace hvd {

// Finds out that a rank's parent in the tree is stopped or hangs. A rank that waits, and has heard
// nothing from its parent for the stall limit, asks it; whoever runs answers at once, whatever else
// waits. Without an answer a quarter of the limit later the parent is given up. Pure: no clock.
class ParentWatch {
 public:
  enum class Finding { kNone, kAsk, kSilent };

  // Zero = never.
  explicit ParentWatch(Duration limit) : limit_(limit) {}
  void set_limit(Duration limit) { limit_ = limit; }

  // A message of the parent came.
  void heard() { heard_ = true; }
  // `waits`: this rank waits for something that its parent would tell, or for a running batch.
  Finding check(TimePoint now, bool waits);
  // When check() has to be called while this rank waits; empty = never.
  std::optional<TimePoint> next_check() const;

 private:
  Duration limit_;
  bool heard_ = false;
  bool asked_ = false;
  std::optional<TimePoint> since_;  // when the silence, or the wait for an answer, began
};

}  // namespace hvd
