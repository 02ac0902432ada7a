#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/observe/observer.h"
#include "core/observe/timeline_tracks.h"

namespace hvd::engine {

struct TimelineOptions {
  // The trace stops here, saying so; it keeps its beginning.
  std::size_t max_bytes = std::size_t{512} << 20;
  bool mark_cycles = false;
  // Tensor events of one rank that may wait; further ones are dropped, counted, and the count is
  // written.
  std::size_t queue_limit = std::size_t{1} << 18;
  Duration flush_interval = std::chrono::milliseconds(100);
};

class TimelineWriter;

// The Chrome trace of a job (chrome://tracing, ui.perfetto.dev; see TimelineTracks for its
// content): one file, written by rank 0, with what happens on all ranks by rank 0's clock. It
// can be read at any moment; of a process that dies, what is younger than the flush interval is
// lost.
// While nothing is recorded an event costs a branch.
class Timeline final : public Observer {
 public:
  explicit Timeline(Rank rank, const TimelineOptions& options = {});
  // The file is complete afterwards.
  ~Timeline() override;

  // Rank 0: begins to record into `path`, which is overwritten; the other ranks follow within
  // moments. On the other ranks these two do nothing, so that all may call them. Throws
  // InvalidArgumentError when it records already, or naming path and reason if it cannot be
  // written. `mark_cycles`: instead of what the options say. Any thread.
  void start(const std::string& path, std::optional<bool> mark_cycles = {});
  // Rank 0: ends it; waits for what is on its way from the other ranks, at most kTimelineLimit
  // (core/base/deadlines.h). Nothing happens when it does not record. Any thread.
  void stop();

  void submitted(const SubmissionInfo& submission) override;
  void finished(const BatchInfo& batch) override;
  void failed(std::uint64_t ticket, std::string_view name, const Status& why,
              TimePoint at) override;
  void stopped(const Status& why, bool orderly) override;
  bool wants_observed() const override;
  void observed(bool on) override;
  void collect(Bytes& out) override;
  void receive(const Observation& observation) override;

 private:
  std::shared_ptr<TimelineWriter> writer() const;
  void record(bool on);

  const Rank rank_;
  const TimelineOptions options_;
  TimelineRecorder recorder_;
  std::atomic<bool> recording_{false};
  std::atomic<bool> wanted_{false};
  std::atomic<bool> job_ended_{false};
  Mutex control_;  // start() and stop(); the coordinator never takes it
  mutable Mutex mutex_;
  std::shared_ptr<TimelineWriter> writer_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd::engine
