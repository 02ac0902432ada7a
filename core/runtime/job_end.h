#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/config/loss_mark.h"
#include "core/negotiate/effects.h"
#include "core/negotiate/stall/unfinished.h"
#include "core/runtime/rank_parts.h"

namespace hvd::engine {

// How the job ends at one rank: in order, or with an error that all ranks learn. Used by the thread
// that runs the loop, except what is marked "any thread".
class JobEnd {
 public:
  // `parts` outlive it. `answer_limit`: from leave() or fail() to the others' answer.
  JobEnd(RankParts& parts, Duration answer_limit) : parts_(parts), answer_limit_(answer_limit) {}

  // This rank leaves, and announces nothing any more.
  void leave();
  // This rank cannot go on.
  void fail(const Status& why);
  void peer_lost(Rank rank, const Status& why);
  // The log has ended.
  void stopped(const Stopped& effect);
  // The loop itself is broken.
  void give_up(const Status& why) noexcept;
  // Time passes: true when the phase changed.
  bool check(TimePoint now);
  TimePoint next_deadline() const;

  bool running() const { return phase_ == Phase::kRunning; }
  // Submissions are still announced.
  bool accepts() const { return running() && !left_; }
  // Nothing is in flight any more.
  bool all_ended() const { return phase_ == Phase::kLeaving || phase_ == Phase::kEnded; }
  // This rank may go.
  bool over() const { return phase_ == Phase::kEnded; }

  void abort_ports(const Status& why) noexcept;  // any thread
  // The job ended other than in order, however this rank learned of it. Any thread.
  bool in_error() const noexcept { return in_error_; }

 private:
  // Running -> (the log said stop) -> draining what it started before -> leaving -> ended.
  enum class Phase { kRunning, kDraining, kLeaving, kEnded };

  bool check_drain(TimePoint now);
  bool awaits_location() const { return location_deadline_ != TimePoint::max(); }
  void finish_departure(const std::string& location);
  void close_transfers(const Status& why);
  void stop(const Status& why, bool orderly);

  RankParts& parts_;
  const Duration answer_limit_;
  Phase phase_ = Phase::kRunning;
  Status stop_reason_;
  TimePoint phase_deadline_ = TimePoint::max();
  std::optional<Drain> drain_;                       // while draining
  std::optional<Stopped> departure_;                 // another rank left; not yet in stop_reason_
  TimePoint location_deadline_ = TimePoint::max();   // until then the program may say where it is
  TimePoint transfers_deadline_ = TimePoint::max();  // while draining
  bool left_ = false;
  Status failure_;            // what fail() told the protocol
  bool lost_a_peer_ = false;  // which is that a peer is gone
  const LossReporter loss_;   // tells hvdrun when another rank ended the job
  std::atomic<bool> in_error_{false};
};

}  // namespace hvd::engine
