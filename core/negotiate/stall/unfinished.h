#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/tensor_view.h"
#include "core/negotiate/messages/request.h"
#include "core/negotiate/stall/stall_monitor.h"

namespace hvd::engine {

// A batch that has not ended on this rank, as reports tell of it.
struct UnfinishedBatch {
  std::uint64_t number = 0;
  CollectiveKind kind = CollectiveKind::kAllreduce;
  std::string name = {};   // of its first tensor or group
  std::size_t others = 0;  // names besides
  Device device = {};
  // When this rank announced the first of it; empty = this rank has joined and announced none of
  // it.
  std::optional<TimePoint> since = {};
};

// `allreduce "w" and 3 more on CUDA device 0, submitted 35 s ago; ...`, of the first four.
std::string describe(std::span<const UnfinishedBatch> batches, TimePoint now);

// Finds batches of this rank that last too long, as rank 0 does for all ranks, where rank 0 cannot
// see them: in a world of one rank, or in the device of another rank. Has no clock.
class BatchWatch {
 public:
  // Zero = never.
  BatchWatch(Duration warning, Duration limit)
      : warning_(warning), limit_(limit), monitor_(warning, limit) {}
  // What lasts already goes on lasting.
  void set_limit(Duration limit) {
    if (std::exchange(limit_, limit) != limit) monitor_.set_limits(warning_, limit);
  }

  // When check() has to be called while batches are not finished; empty = never.
  std::optional<TimePoint> next_check() const { return monitor_.next_check(); }
  bool due(TimePoint now) const { return monitor_.due(now); }
  struct Findings {
    std::optional<std::string> warning;  // once every warning time
    Status failure;                      // names a batch that lasts longer than the limit
  };
  // `batches` is all that is not finished now.
  Findings check(TimePoint now, std::span<const UnfinishedBatch> batches);

 private:
  Duration warning_;
  Duration limit_;
  StallMonitor monitor_;
};

// Bounds the wait for what was started before a shutdown. Has no clock.
class Drain {
 public:
  // Begins: waits for `most`, or for the stall limit where that is shorter (zero = none).
  Drain(TimePoint now, Duration most, Duration stall_limit);

  // Waits no longer than this any more.
  void end_by(TimePoint deadline) { deadline_ = std::min(deadline_, deadline); }
  bool late(TimePoint now) const { return now >= deadline_; }
  // Once, well before the end: what to tell people who wait. `batches` is all that is left.
  std::optional<std::string> warning(TimePoint now, std::span<const UnfinishedBatch> batches);
  // When late() or warning() changes.
  TimePoint next_deadline() const { return std::min(deadline_, warn_at_); }
  // Of a wait that was too long: `why` the job ended, and what it waited for no longer.
  Status give_up(const Status& why, TimePoint now, std::span<const UnfinishedBatch> batches) const;

 private:
  TimePoint begin_;
  TimePoint deadline_;
  TimePoint warn_at_;
};

}  // namespace hvd::engine
