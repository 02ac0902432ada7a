#pragma once

#include "core/negotiate/effects.h"
#include "core/runtime/job_end.h"
#include "core/runtime/rank_parts.h"

namespace hvd::engine {

// Does what the log tells this rank to do.
class LogEffects {
 public:
  // The arguments outlive it.
  LogEffects(RankParts& parts, JobEnd& end) : parts_(parts), end_(end) {}

  // All that is there now; true if anything was.
  bool apply();
  // Ends joins whose time has come; true if any.
  bool finish_joins();

 private:
  void apply(RunBatch& effect);
  void apply(const FailTicket& effect);
  void apply(const SetAdded& effect);
  void apply(const SetRemoved& effect);
  void apply(const AllJoined& effect);
  void apply(const ProbeRanks& effect);
  void apply(const Report& effect);
  void apply(const Stopped& effect);

  RankParts& parts_;
  JobEnd& end_;
};

}  // namespace hvd::engine
