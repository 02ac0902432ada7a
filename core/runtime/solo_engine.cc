#include "core/runtime/solo_engine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/deadlines.h"
#include "core/base/engine_thread.h"
#include "core/base/log.h"
#include "core/runtime/current_status.h"
#include "core/runtime/finite_check.h"

namespace hvd {

SoloEngine::SoloEngine(std::unique_ptr<ControlPlane> control,
                       std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
                       ObserverList observers)
    : control_(std::move(control)),
      collectives_(std::move(collectives)),
      observers_(std::move(observers), control_->topology()),
      stall_limit_(config.stall_limit),
      checks_nan_(config.check_nan),
      watch_(config.stall_warning, config.stall_limit),
      transfers_(collectives_, {config.stall_warning, config.stall_limit}),
      notifier_(control_->doorbell()),
      executor_(collectives_, 0, table_, observers_, control_->doorbell(),
                config.async_completion) {
  executor_.add_set(sets_.find(kWorldSet));
}

SoloEngine::~SoloEngine() {
  shutdown();
  if (waiter_.joinable()) waiter_.join();
}

void SoloEngine::submit(std::span<Submission> submissions, std::span<Handle> handles) {
  table_.add(submissions, handles);
  const MutexLock turn(turn_);
  // Another thread may have run what this one added: then its handles are done already.
  run_added();
}

void SoloEngine::run_added() {
  for (const InFlightPtr& entry : table_.take_added()) run(entry);
}

Handle SoloEngine::submit(PointToPoint transfer) {
  Handle handle = transfers_.add(std::move(transfer));
  const MutexLock turn(turn_);
  advance_transfers();
  if (transfers_.busy()) need_thread();
  return handle;
}

void SoloEngine::shutdown() {
  {
    const MutexLock turn(turn_);
    stop(drain());
  }
  control_->doorbell().ring();
}

void SoloEngine::run(const InFlightPtr& entry) {
  const Request& request = entry->submission.request;
  try {
    sets_.find(request.set);  // may have been removed since the submission was checked
    switch (request.kind) {
      case CollectiveKind::kAddSet: {
        const auto set = std::make_shared<SetMembers>(SetMembers{++last_set_, {0}});
        try {
          executor_.add_set(set);
        } catch (...) {
          set->failure = current_status();
        }
        sets_.add(set);
        return end(*entry, {}, set->id);
      }
      case CollectiveKind::kRemoveSet: {
        const auto set = sets_.find(static_cast<ProcessSetId>(request.numbers.front()));
        sets_.remove(set->id);
        executor_.remove_set(set->id);
        return end(*entry, {}, set->id);
      }
      case CollectiveKind::kJoin:
        return end(*entry, {}, 0);
      default:
        return run_batch(entry);
    }
  } catch (const InvalidArgumentError& error) {
    end(*entry, error.status(), 0);
  } catch (...) {
    stop(current_status());
  }
}

// Not all devices ring the doorbell.
Duration SoloEngine::poll_interval() const {
  Duration shortest = std::chrono::seconds(1);
  for (const auto& collective : collectives_) {
    shortest = std::min(shortest, collective->poll_interval().value_or(shortest));
  }
  return shortest;
}

void SoloEngine::run_batch(const InFlightPtr& entry) {
  const Request& request = entry->submission.request;
  const bool on_host = request.device == DeviceKind::kCpu;
  if (on_host) entry->submission.ready.wait();  // there is nobody else to keep waiting
  if (checks_nan_) {
    const std::string fault = describe_not_finite(entry->submission, entry->ticket);
    if (!fault.empty()) throw InvalidArgumentError("rank 0's " + fault);
  }
  entry->announced = Clock::now();
  observers_.tick(entry->announced, observers_.wants_observed());
  observers_.submitted(*entry, entry->announced);
  RunBatch plan{.number = ++batches_, .key = fusion_key(request), .divisor = 1, .members = {}};
  plan.members.push_back({entry->ticket, std::shared_ptr<const Request>(entry, &request)});
  for (std::size_t i = 0; i < request.shapes.size(); ++i) plan.bytes += request.bytes_of(i);
  executor_.run(std::move(plan));
  while (on_host && executor_.failure().ok() && !entry->completion.done()) {
    const auto seen = control_->doorbell().rings();
    if (!executor_.advance(Clock::now())) rest(seen);
  }
  advance_batches();
  if (executor_.busy()) need_thread();
}

// Until something rings, or is to be looked at.
void SoloEngine::rest(std::uint32_t seen) {
  control_->doorbell().wait_until(seen, Clock::now() + poll_interval());
}

// Lets the device finish what it has; why the handles that are left end.
Status SoloEngine::drain() {
  const Status why(StatusCode::kAborted, "this rank has shut down");
  Drain drain(Clock::now(), kDrainLimit, stall_limit_);
  while (executor_.busy()) {
    const auto seen = control_->doorbell().rings();
    advance_batches();
    if (!executor_.busy()) break;
    const TimePoint now = Clock::now();
    if (now < drain.next_deadline()) {
      rest(seen);
      continue;
    }
    const std::vector<UnfinishedBatch> left = executor_.unfinished();
    if (const auto warning = drain.warning(now, left)) warn(*warning);
    if (!drain.late(now)) continue;
    const Status given_up = drain.give_up(why, now, left);
    log(LogLevel::kError, given_up.message());
    return given_up;
  }
  return why;
}

// Of what runs no batch.
void SoloEngine::end(const InFlight& entry, const Status& status, std::int64_t number) {
  const InFlightPtr kept = table_.find(entry.ticket);
  table_.remove(entry.ticket);
  kept->completion.finish(status, {.number = number});
}

void SoloEngine::advance_batches() {
  while (executor_.advance(Clock::now())) {
  }
  while (executor_.next_finished()) {
  }
  run_added();  // their names were in flight
  if (!executor_.failure().ok()) stop(executor_.failure());
}

// There is no rank 0 that does it for all.
void SoloEngine::watch_batches(TimePoint now) {
  if (!watch_.due(now)) return;
  const BatchWatch::Findings found = watch_.check(now, executor_.unfinished());
  if (found.warning) warn(*found.warning);
  if (!found.failure.ok()) stop(found.failure);
}

void SoloEngine::warn(const std::string& text) {
  log(LogLevel::kWarning, text);
  notifier_.report(text);
}

void SoloEngine::advance_transfers() {
  while (transfers_.advance(Clock::now())) {
  }
  while (const auto report = transfers_.next_report()) warn(*report);
  if (!transfers_.failure().ok()) stop(transfers_.failure());
}

void SoloEngine::need_thread() {
  if (!waiter_.joinable()) waiter_ = start_engine_thread([this] { look_after_rest(); });
  control_->doorbell().ring();
}

// The thread: of what submit() left behind.
void SoloEngine::look_after_rest() {
  Doorbell& bell = control_->doorbell();
  while (table_.closed().ok()) {
    const auto seen = bell.rings();
    TimePoint deadline;
    {
      const MutexLock turn(turn_);
      advance_transfers();
      advance_batches();
      const TimePoint now = Clock::now();
      watch_batches(now);
      deadline = transfers_.next_deadline(now);
      if (executor_.busy()) {
        deadline = std::min(deadline, now + poll_interval());
        deadline = std::min(deadline, watch_.next_check().value_or(deadline));
      }
    }
    if (table_.closed().ok()) bell.wait_until(seen, deadline);
  }
}

void SoloEngine::stop(const Status& why) {
  if (!table_.closed().ok()) return;
  // First the ports let go of the tensors, then their owners learn that they may have them back.
  if (executor_.busy()) executor_.fail(why);
  transfers_.close(why);
  observers_.stopped(why, why.code() == StatusCode::kAborted);
  for (const InFlightPtr& entry : table_.close(why)) {
    observers_.failed(*entry, why);
    entry->completion.finish(why);
  }
  observers_.leave(Clock::now());
}

}  // namespace hvd
