#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"

namespace hvd::engine {

// Something that began and has not ended: a name that some ranks announced, a batch that runs.
struct Waiting {
  std::string name;
  std::uint64_t round = 0;  // tells one wait from the next
  // What check() gets: others have waited so long already. What it finds: it has lasted so long.
  Duration held = Duration::zero();
};

struct StallFindings {
  std::vector<Waiting> held;        // for at least a quarter of the warning time
  bool ask = false;                 // some wait comes near to its next warning
  std::vector<Waiting> overdue;     // for the warning time; once every warning time
  std::optional<Waiting> hopeless;  // for the limit
};

// Which waits last too long. Looks at them only now and then, so that waits which end in time cost
// nothing; a finding may come late by an eighth of the warning time. Pure: it has no clock.
class StallMonitor {
 public:
  // Zero = never.
  StallMonitor(Duration warning, Duration limit) { set_limits(warning, limit); }
  // What waits already goes on waiting.
  void set_limits(Duration warning, Duration limit);

  // When check() has to be called while something waits; empty = never.
  std::optional<TimePoint> next_check() const;
  bool due(TimePoint now) const { return next_check() && now >= *next_check(); }
  // `waiting` is all that waits at `now`; what is not in it has ended.
  StallFindings check(TimePoint now, std::span<const Waiting> waiting);

 private:
  struct Watch {
    TimePoint since;
    std::int64_t asks = 0;
    std::int64_t warnings = 0;
  };
  void look(const Waiting& waiting, Watch& watch, TimePoint now, StallFindings& findings) const;

  Duration warning_{};
  Duration limit_{};
  Duration scale_{};  // quarters and eighths are of this
  TimePoint next_check_{};
  std::map<std::uint64_t, Watch> watches_;  // by round
};

// Finds out that a rank's parent in the tree is stopped or hangs. A rank that waits, and has heard
// nothing from its parent for the stall limit, asks it; a running rank answers at once, whatever
// else waits. Without an answer a quarter of the limit later the parent is given up. No clock.
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

}  // namespace hvd::engine
