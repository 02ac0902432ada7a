// How a coordinator ends: in order, or with an error that all ranks learn.

#include <algorithm>
#include <string>

#include "core/base/clock.h"
#include "core/base/deadlines.h"
#include "core/config/log.h"
#include "core/runtime/coordinator.h"

namespace hvd {
namespace {

// What ends the job on all ranks is never one user's mistake.
Status as_failure(const Status& status, Rank rank) {
  const StatusCode code = status.code();
  const bool keep = code == StatusCode::kStalled || code == StatusCode::kUnsupported ||
                    code == StatusCode::kInternal;
  return {keep ? code : StatusCode::kTransport,
          "rank " + std::to_string(rank) + " cannot go on: " + status.message()};
}

}  // namespace

void Coordinator::abort_ports(const Status& why) noexcept {
  ended_in_error_ = true;
  for (const auto& collective : collectives_) collective->abort();
  control_->abort(why);
}

void Coordinator::on_lost(Rank rank, const Status& why) {
  protocol_.peer_lost(rank, why);
  observers_.peer_lost(rank);
  // It may have gone in order, with its part of the batches done.
  if (phase_ == Phase::kDraining) drain_->end_by(Clock::now() + kLostDrainLimit);
}

void Coordinator::fail(const Status& why) {
  if (phase_ != Phase::kRunning || !failure_.ok()) return;
  failure_ = as_failure(why, topology_.rank);
  lost_a_peer_ = why.code() == StatusCode::kTransport;
  phase_deadline_ = std::min(phase_deadline_, Clock::now() + answer_limit_);
  protocol_.fail(failure_);
}

// True when the phase changed.
bool Coordinator::check_phase(TimePoint now) {
  const bool late = now >= phase_deadline_;
  switch (phase_) {
    case Phase::kRunning:
      if (!late) return false;
      stop_reason_ = failure_;
      if (failure_.ok()) {
        stop_reason_ = {StatusCode::kAborted,
                        "this rank shut down and got no answer from the others within " +
                            seconds_text(answer_limit_) + " (HVD_SHUTDOWN_TIMEOUT_SECONDS)"};
      }
      abort_ports(stop_reason_);
      stop(stop_reason_, false);
      return true;
    case Phase::kDraining:
      return check_drain(now);
    case Phase::kLeaving:
      if (!late && !(protocol_.finished_leaving() && observers_.settled(now))) return false;
      phase_ = Phase::kEnded;
      return true;
    case Phase::kEnded:
      return false;
  }
  return false;
}

// A program that has left asks no handle any more.
void Coordinator::close_transfers(const Status& why) {
  for (const std::string& unfinished : transfers_.close(why)) {
    if (left_) log(LogLevel::kWarning, "this rank left the job with an unfinished " + unfinished);
  }
}

void Coordinator::stop(const Status& why, bool orderly) {
  if (phase_ == Phase::kLeaving || phase_ == Phase::kEnded) return;
  if (!orderly) {
    ended_in_error_ = true;
    control_->job_failed();
  }
  drain_.reset();
  // First the ports let go of the tensors, then their owners learn that they may have them back.
  if (executor_.busy() || transfers_.busy()) executor_.fail(why);
  close_transfers(why);
  // Not when this rank is the reason, nor when no single rank is.
  const bool own = left_ || (!failure_.ok() && !lost_a_peer_);
  if (!own && why.code() != StatusCode::kStalled) loss_.report();
  observers_.stopped(why, orderly);
  for (const InFlightPtr& entry : table_.close(why)) {
    if (runs_batches(entry->submission.request.kind)) observers_.failed(*entry, why);
    // One that came when the end was decided already is not among those that waited for a rank.
    const bool told = entry->announced != TimePoint{};
    entry->completion.finish(told ? why : not_submitted(entry->name(), why));
  }
  unready_.clear();
  joined_.clear();
  observers_.leave(Clock::now());
  phase_ = Phase::kLeaving;
  phase_deadline_ = Clock::now() + (orderly ? kGoodbyeLimit : kErrorGoodbyeLimit);
}

}  // namespace hvd
