#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/observe/observer.h"

namespace hvd::engine {

// Where the ranks of one job leave what they know when it failed: <base>/<job>.
struct RecordFolder {
  std::string base;
  std::string job;
  // `base` is the default, in a folder that others may use too: it has to be a folder of this user
  // that no other user may write to, and only the newest of its jobs are kept.
  bool is_default = false;

  std::string path() const { return base + "/" + job; }
};

// Puts a file into it, whole or not at all, which only this user can read. Makes both folders
// (0700) where they are missing, and returns whether the job's was: one process of each host gets
// true. Follows no link that others may have put there, and replaces and removes only what is this
// user's. Throws InvalidArgumentError with path and reason. Any thread, any process.
bool add_record(const RecordFolder& folder, const std::string& name, const std::string& text);

// Jobs whose folders are kept in the default base.
inline constexpr int kJobsKept = 16;

struct FlightRecorderOptions {
  std::size_t operations = 1024;  // kept; 0 = none
  // See RecordFolder. Empty = a failed job leaves nothing.
  std::string base = {};
  bool base_is_default = false;
};

// Remembers the last operations of one rank, finished or not, and writes them down when the engine
// ends with an error: what hung, what ran, what came before. No allocation in steady state.
class FlightRecorder final : public Observer {
 public:
  FlightRecorder(Rank rank, int size, const FlightRecorderOptions& options);

  // The ranks have met, and what was recorded so far was init()'s: forgets it. Only from now on
  // does a failure leave <base>/<job>/flight_recorder.rank<r>.json, if there was any operation.
  // `announces`: the first rank of each host says where. Any thread.
  void begin(const std::string& job, bool announces);

  // A JSON object: rank, size, how the job ended ("reason": null while it runs) and "operations",
  // oldest first, each with name, kind, dtype, process_set, bytes, state (submitted, negotiated,
  // started, finished or failed) and the seconds since start_time_since_epoch_in_micros at which it
  // got there (null: it did not). Any thread.
  std::string to_json() const;
  // Replaces the file at once (see AtomicFile). Throws InvalidArgumentError with path and reason.
  // Any thread.
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
  bool has_operation() const HVD_REQUIRES(mutex_);

  const Rank rank_;
  const int size_;
  const TimePoint begin_ = Clock::now();
  const std::int64_t begin_epoch_us_;

  mutable Mutex mutex_;
  RecordFolder folder_ HVD_GUARDED_BY(mutex_);  // without a job: before begin()
  bool announces_ HVD_GUARDED_BY(mutex_) = false;
  std::vector<Operation> ring_ HVD_GUARDED_BY(mutex_);  // ticket t is at t % size
  std::uint64_t newest_ HVD_GUARDED_BY(mutex_) = 0;     // ticket
  Status why_ HVD_GUARDED_BY(mutex_);                   // the job ended
};

}  // namespace hvd::engine
