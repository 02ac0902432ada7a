#include "core/observe/flight_recorder.h"

#include <algorithm>
#include <chrono>

#include "core/config/log.h"
#include "core/observe/json_string.h"
#include "core/system/atomic_file.h"
#include "core/system/job_name.h"

namespace hvd {
namespace {

constexpr const char* kStateNames[] = {"submitted", "negotiated", "started", "finished", "failed"};

std::int64_t microseconds_since_epoch() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

// Integers keep locales out of it.
std::string seconds(Duration time) {
  const auto count = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  const std::string fraction =
      std::to_string(1'000'000 + std::max<std::int64_t>(count, 0) % 1'000'000);
  return std::to_string(std::max<std::int64_t>(count, 0) / 1'000'000) + "." + fraction.substr(1);
}

std::string status_json(const Status& status) {
  if (status.ok()) return "null";
  return R"({"code":)" + json_string(name_of(status.code())) + R"(,"message":)" +
         json_string(status.message()) + "}";
}

}  // namespace

FlightRecorder::FlightRecorder(Rank rank, int size, const FlightRecorderOptions& options)
    : rank_(rank),
      size_(size),
      begin_epoch_us_(microseconds_since_epoch()),
      folder_{options.base, {}, options.base_is_default},
      ring_(options.operations) {}

void FlightRecorder::begin(const std::string& job, bool announces) {
  const MutexLock lock(mutex_);
  folder_.job = job;
  announces_ = announces;
  for (Operation& operation : ring_) operation.ticket = 0;
}

bool FlightRecorder::has_operation() const {
  return std::ranges::any_of(ring_, [](const Operation& each) { return each.ticket != 0; });
}

void FlightRecorder::submitted(const SubmissionInfo& submission) {
  const MutexLock lock(mutex_);
  if (ring_.empty()) return;
  Operation& operation = ring_[submission.ticket % ring_.size()];
  operation.ticket = submission.ticket;
  operation.name = submission.name;
  operation.kind = submission.kind;
  operation.dtype = submission.dtype;
  operation.set = submission.set;
  operation.bytes = submission.bytes;
  operation.batch = 0;
  operation.state = State::kSubmitted;
  std::fill(std::begin(operation.at), std::end(operation.at), TimePoint{});
  operation.at[0] = submission.submitted;
  if (!operation.why.ok()) operation.why = {};
  newest_ = std::max(newest_, submission.ticket);
}

FlightRecorder::Operation* FlightRecorder::find(std::uint64_t ticket) {
  if (ring_.empty() || ticket == 0) return nullptr;
  Operation& operation = ring_[ticket % ring_.size()];
  return operation.ticket == ticket ? &operation : nullptr;
}

void FlightRecorder::advance(const BatchInfo& batch, State state, TimePoint at) {
  const MutexLock lock(mutex_);
  for (const BatchMemberInfo& member : batch.members) {
    Operation* const operation = find(member.ticket);
    if (operation == nullptr) continue;
    operation->batch = batch.number;
    operation->state = state;
    operation->at[static_cast<std::size_t>(state)] = at;
  }
}

void FlightRecorder::negotiated(const BatchInfo& batch) {
  advance(batch, State::kNegotiated, batch.negotiated);
}

void FlightRecorder::started(const BatchInfo& batch) {
  advance(batch, State::kStarted, batch.started);
}

void FlightRecorder::finished(const BatchInfo& batch) {
  advance(batch, State::kFinished, batch.finished);
}

void FlightRecorder::failed(std::uint64_t ticket, std::string_view, const Status& why,
                            TimePoint at) {
  const MutexLock lock(mutex_);
  Operation* const operation = find(ticket);
  if (operation == nullptr) return;
  operation->state = State::kFailed;
  operation->at[static_cast<std::size_t>(State::kFailed)] = at;
  operation->why = why;
}

void FlightRecorder::stopped(const Status& why, bool orderly) {
  RecordFolder folder;
  bool announces = false;
  {
    const MutexLock lock(mutex_);
    why_ = why;
    if (orderly || folder_.base.empty() || folder_.job.empty() || !has_operation()) return;
    folder = folder_;
    announces = announces_;
  }
  try {
    if (add_record(folder, flight_recorder_file(rank_), to_json()) && announces) {
      log(LogLevel::kWarning,
          "the last operations of this job's ranks before the failure are in " + folder.path());
    }
  } catch (const Error& error) {
    log(LogLevel::kWarning, error.what());
  }
}

std::string FlightRecorder::to_json() const {
  const MutexLock lock(mutex_);
  std::string out = R"({"rank":)" + std::to_string(rank_) + R"(,"size":)" + std::to_string(size_) +
                    R"(,"start_time_since_epoch_in_micros":)" + std::to_string(begin_epoch_us_) +
                    R"(,"now":)" + seconds(Clock::now() - begin_) + R"(,"reason":)" +
                    status_json(why_) + R"(,"operations":[)";
  const std::uint64_t kept = ring_.size();
  bool first = true;
  for (std::uint64_t ticket = newest_ < kept ? 1 : newest_ - kept + 1; ticket <= newest_;
       ++ticket) {
    const Operation& operation = ring_[ticket % kept];
    if (operation.ticket != ticket) continue;
    out += first ? "\n" : ",\n";
    first = false;
    append(operation, out);
  }
  return out + "\n]}\n";
}

void FlightRecorder::append(const Operation& operation, std::string& out) const {
  out += R"({"ticket":)" + std::to_string(operation.ticket) + R"(,"name":)" +
         json_string(operation.name) + R"(,"kind":)" + json_string(name_of(operation.kind)) +
         R"(,"dtype":)" + json_string(name_of(operation.dtype)) + R"(,"process_set":)" +
         std::to_string(operation.set) + R"(,"bytes":)" + std::to_string(operation.bytes) +
         R"(,"batch":)" +
         (operation.at[1] == TimePoint{} ? "null" : std::to_string(operation.batch)) +
         R"(,"state":")" + kStateNames[static_cast<std::size_t>(operation.state)] + '"';
  for (std::size_t state = 0; state < kStates; ++state) {
    const TimePoint at = operation.at[state];
    out += std::string(",\"") + kStateNames[state] +
           "\":" + (at == TimePoint{} ? "null" : seconds(at - begin_));
  }
  out += R"(,"error":)" + status_json(operation.why) + "}";
}

void FlightRecorder::dump(const std::string& path) const {
  const std::string text = to_json();
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit(/*to_disk=*/false);
}

}  // namespace hvd
