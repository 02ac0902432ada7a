#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/runtime/observer.h"

namespace hvd {

struct FlightRecorderOptions {
  std::size_t operations = 1024;  // kept; 0 = none
  // A failed job leaves <folder>/flight_recorder.rank<r>.json here, and makes the folder; empty =
  // it leaves none.
  std::string folder = {};
};

// Remembers the last operations of one rank, finished or not, and writes them down when the job
// fails: what hung, what ran, what came before. No allocation in steady state.
class FlightRecorder final : public Observer {
 public:
  FlightRecorder(Rank rank, int size, const FlightRecorderOptions& options);

  // A JSON object: rank, size, how the job ended ("reason": null while it runs) and "operations",
  // oldest first, each with name, kind, dtype, process_set, bytes, state (submitted, negotiated,
  // started, finished or failed) and the seconds since start_time_since_epoch_in_micros at which it
  // got there (null: it did not). Any thread.
  std::string to_json() const;
  // Replaces the file at once. Throws InvalidArgumentError with path and reason. Any thread.
  void dump(const std::string& path) const;

  void submitted(const SubmissionInfo& submission) override;
  void negotiated(const BatchInfo& batch) override;
  void started(const BatchInfo& batch) override;
  void finished(const BatchInfo& batch) override;
  void failed(std::uint64_t ticket, std::string_view name, const Status& why,
              TimePoint at) override;
  void stopped(const Status& why, bool orderly) override;

 private:
  enum class State { kSubmitted = 0, kNegotiated, kStarted, kFinished, kFailed };
  static constexpr std::size_t kStates = 5;

  struct Operation {
    std::uint64_t ticket = 0;  // 0 = unused
    std::string name;
    CollectiveKind kind = CollectiveKind::kAllreduce;
    DType dtype = DType::kF32;
    ProcessSetId set = kWorldSet;
    std::size_t bytes = 0;
    std::uint64_t batch = 0;
    State state = State::kSubmitted;
    TimePoint at[kStates];  // when it got into each state; TimePoint{} = not
    Status why;
  };

  Operation* find(std::uint64_t ticket) HVD_REQUIRES(mutex_);
  void advance(const BatchInfo& batch, State state, TimePoint at);
  void append(const Operation& operation, std::string& out) const HVD_REQUIRES(mutex_);

  const Rank rank_;
  const int size_;
  const std::string folder_;
  const TimePoint begin_ = Clock::now();
  const std::int64_t begin_epoch_us_;

  mutable Mutex mutex_;
  std::vector<Operation> ring_ HVD_GUARDED_BY(mutex_);  // ticket t is at t % size
  std::uint64_t newest_ HVD_GUARDED_BY(mutex_) = 0;     // ticket
  Status why_ HVD_GUARDED_BY(mutex_);                   // the job ended
};

}  // namespace hvd
