#include "core/observe/timeline.h"

#include <utility>

#include "core/base/deadlines.h"
#include "core/base/status.h"

namespace hvd {

Timeline::Timeline(Rank rank, const TimelineOptions& options)
    : rank_(rank), options_(options), recorder_(options.queue_limit) {}

Timeline::~Timeline() = default;

void Timeline::start(const std::string& path, std::optional<bool> mark_cycles) {
  if (rank_ != 0) return;
  const MutexLock one_at_a_time(control_);
  if (writer()) {
    throw InvalidArgumentError("start_timeline('" + path + "'): a timeline is being recorded");
  }
  TimelineOptions options = options_;
  options.mark_cycles = mark_cycles.value_or(options_.mark_cycles);
  auto begun = std::make_shared<TimelineWriter>(path, options, recorder_);
  {
    const MutexLock lock(mutex_);
    writer_ = std::move(begun);
  }
  record(true);
  wanted_ = true;
}

void Timeline::stop() {
  const MutexLock one_at_a_time(control_);
  const auto ending = writer();
  if (!ending) return;
  wanted_ = false;
  record(false);
  if (!job_ended_) ending->wait_for_others(Clock::now() + kTimelineLimit);
  {
    const MutexLock lock(mutex_);
    writer_.reset();
  }
  ending->finish();
}

void Timeline::record(bool on) {
  recording_ = on;
  recorder_.record(on);
}

std::shared_ptr<TimelineWriter> Timeline::writer() const {
  const MutexLock lock(mutex_);
  return writer_;
}

void Timeline::submitted(const SubmissionInfo& submission) {
  if (recording_) recorder_.submitted(submission);
}

void Timeline::finished(const BatchInfo& batch) {
  if (recording_) recorder_.finished(batch);
}

void Timeline::failed(std::uint64_t, std::string_view name, const Status& why, TimePoint at) {
  if (recording_) recorder_.failed(name, why, at);
}

void Timeline::stopped(const Status&, bool) {
  job_ended_ = true;
}

bool Timeline::wants_observed() const {
  if (!wanted_) return false;
  const auto current = writer();
  return current && !current->ended();
}

void Timeline::observed(bool on) {
  if (rank_ != 0) record(on);
}

void Timeline::collect(Bytes& out) {
  const Bytes block = recorder_.take();
  out.insert(out.end(), block.begin(), block.end());
}

void Timeline::receive(const Observation& observation) {
  if (const auto current = writer()) {
    current->add(observation.from, observation.clock.value_or(ClockEstimate{}), observation.bytes);
  }
}

}  // namespace hvd
