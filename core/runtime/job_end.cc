#include "core/runtime/job_end.h"

#include <algorithm>

#include "core/base/deadlines.h"
#include "core/config/log.h"
#include "core/negotiate/messages/request.h"

namespace hvd::engine {
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

void JobEnd::leave() {
  left_ = true;
  phase_deadline_ = std::min(phase_deadline_, Clock::now() + answer_limit_);
  parts_.protocol.leave();
}

void JobEnd::give_up(const Status& why) noexcept {
  abort_ports(why);
  stop(why, false);
  phase_ = Phase::kEnded;
}

void JobEnd::abort_ports(const Status& why) noexcept {
  in_error_ = true;
  parts_.abort_ports(why);
}

TimePoint JobEnd::next_deadline() const {
  TimePoint deadline = phase_deadline_;
  if (drain_) deadline = std::min({deadline, drain_->next_deadline(), location_deadline_});
  if (parts_.transfers.busy()) deadline = std::min(deadline, transfers_deadline_);
  return deadline;
}

void JobEnd::peer_lost(Rank rank, const Status& why) {
  parts_.protocol.peer_lost(rank, why);
  parts_.observers.peer_lost(rank);
  // It may have gone in order, with its part of the batches done.
  if (phase_ == Phase::kDraining) drain_->end_by(Clock::now() + kLostDrainLimit);
}

void JobEnd::fail(const Status& why) {
  if (phase_ != Phase::kRunning || !failure_.ok()) return;
  failure_ = as_failure(why, parts_.topology.rank);
  lost_a_peer_ = why.code() == StatusCode::kTransport;
  phase_deadline_ = std::min(phase_deadline_, Clock::now() + answer_limit_);
  parts_.protocol.fail(failure_);
}

// A rank that waits for what one that left will not bring learns where its program is, if that can
// be found out soon.
void JobEnd::stopped(const Stopped& effect) {
  if (phase_ != Phase::kRunning) return;
  stop_reason_ = effect.why;
  const bool waits = effect.orderly && !left_ && !effect.waits_for.empty();
  if (effect.orderly && !left_) departure_ = effect;
  if (waits && parts_.notifier.request_location())
    location_deadline_ = Clock::now() + kLocationLimit;
  if (effect.orderly && (parts_.executor.busy() || parts_.transfers.busy() || awaits_location())) {
    phase_ = Phase::kDraining;
    phase_deadline_ = TimePoint::max();
    drain_.emplace(Clock::now(), kDrainLimit, parts_.protocol.settings().stall_limit);
    transfers_deadline_ = Clock::now() + kTransferDrainLimit;
  } else {
    finish_departure({});
    stop(stop_reason_, effect.orderly);
  }
}

// What it means to this rank that another one left.
void JobEnd::finish_departure(const std::string& location) {
  location_deadline_ = TimePoint::max();
  if (!departure_) return;
  std::string text = departure_->why.message();
  if (!departure_->waits_for.empty()) {
    text += " while rank " + std::to_string(parts_.topology.rank) + " waits for " +
            readable_name(departure_->waits_for) + ", submission " +
            std::to_string(departure_->waits_number);
    if (!location.empty()) text += ", at " + location;
  }
  // A rank that waits only for a message learns of that.
  if (!departure_->waits_for.empty() || !parts_.transfers.busy()) {
    text += ". Different numbers of batches? See hvd.join(), and JoinCallback for Keras.";
  }
  stop_reason_ = {departure_->why.code(), std::move(text)};
  departure_.reset();
}

// True when the phase changed.
bool JobEnd::check_drain(TimePoint now) {
  if (now >= transfers_deadline_) close_transfers(stop_reason_);
  if (const auto location = awaits_location() ? parts_.notifier.take_location() : std::nullopt) {
    finish_departure(*location);
  } else if (now >= location_deadline_ || !awaits_location()) {
    finish_departure({});
  }
  if (!parts_.executor.busy() && !parts_.transfers.busy() && !awaits_location()) {
    stop(stop_reason_, true);
    return true;
  }
  if (now < drain_->next_deadline()) return false;
  const std::vector<UnfinishedBatch> left = parts_.executor.unfinished();
  if (const auto warning = drain_->warning(now, left)) parts_.warn(*warning);
  if (!drain_->late(now)) return false;
  const Status why = drain_->give_up(stop_reason_, now, left);
  const bool orderly = !parts_.executor.busy();
  if (!orderly) log(LogLevel::kError, why.message());
  stop(why, orderly);
  return true;
}

// True when the phase changed.
bool JobEnd::check(TimePoint now) {
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
      if (!late && !(parts_.protocol.finished_leaving() && parts_.observers.settled(now)))
        return false;
      phase_ = Phase::kEnded;
      return true;
    case Phase::kEnded:
      return false;
  }
  return false;
}

// A program that has left asks no handle any more.
void JobEnd::close_transfers(const Status& why) {
  for (const std::string& unfinished : parts_.transfers.close(why)) {
    if (left_) log(LogLevel::kWarning, "this rank left the job with an unfinished " + unfinished);
  }
}

void JobEnd::stop(const Status& why, bool orderly) {
  if (all_ended()) return;
  if (!orderly) {
    in_error_ = true;
    parts_.control->job_failed();
  }
  drain_.reset();
  // First the ports let go of the tensors, then their owners learn that they may have them back.
  if (parts_.executor.busy() || parts_.transfers.busy()) parts_.executor.fail(why);
  close_transfers(why);
  // Not when this rank is the reason, nor when no single rank is.
  const bool own = left_ || (!failure_.ok() && !lost_a_peer_);
  if (!own && why.code() != StatusCode::kStalled) loss_.report();
  parts_.observers.stopped(why, orderly);
  for (const InFlightPtr& entry : parts_.table.close(why)) {
    if (runs_batches(entry->submission.request.kind))
      parts_.observers.failed(entry->ticket, entry->name(), why);
    // One that came when the end was decided already is not among those that waited for a rank.
    const bool told = entry->announced != TimePoint{};
    entry->completion.finish(told ? why : not_submitted(entry->name(), why));
  }
  parts_.unready.clear();
  parts_.joined.clear();
  parts_.observers.leave(Clock::now(), orderly);
  phase_ = Phase::kLeaving;
  phase_deadline_ = Clock::now() + (orderly ? kGoodbyeLimit : kErrorGoodbyeLimit);
}

}  // namespace hvd::engine
