#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/runtime/doorbell.h"
#include "core/runtime/observer.h"
#include "core/runtime/timeline_file.h"
#include "core/runtime/timeline_tracks.h"

namespace hvd {

struct TimelineOptions {
  Rank rank = 0;
  // Tensor events (an event of a batch counts once a tensor) that may wait for the writing thread;
  // further ones are dropped, counted, and the count is written.
  std::size_t queue_limit = std::size_t{1} << 16;
  Duration flush_interval = std::chrono::milliseconds(100);
};

// Writes what one Runtime does as a Chrome trace (chrome://tracing, ui.perfetto.dev): see
// TimelineTracks for its content. The file is valid JSON whenever this process may die; what is
// younger than the flush interval is lost then. A thread of its own writes; the observed one never
// waits for the disk.
class Timeline final : public Observer {
 public:
  // Overwrites the file. Throws InvalidArgumentError with path and reason if it cannot be written.
  explicit Timeline(const std::string& path, const TimelineOptions& options = {});
  // Writes everything that is queued.
  ~Timeline() override;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  void submitted(std::string_view name) override;
  void negotiated(const BatchInfo& batch) override;
  void started(const BatchInfo& batch) override;
  void finished(const BatchInfo& batch) override;
  void failed(std::string_view name, const Status& why) override;

 private:
  using Records = TimelineTracks::Records;

  std::chrono::nanoseconds now() const { return Clock::now() - begin_; }
  void push(TimelineEvent event);
  void push_batch(TimelineEvent::Kind kind, const BatchInfo& batch);
  void write_until_stopped();
  void write_queued();
  void write(const Records& records);

  const std::string path_;
  const TimelineOptions options_;
  const TimePoint begin_ = Clock::now();

  Mutex mutex_;
  std::vector<TimelineEvent> queue_ HVD_GUARDED_BY(mutex_);
  std::size_t queued_ HVD_GUARDED_BY(mutex_) = 0;  // tensor events in queue_
  std::uint64_t dropped_ HVD_GUARDED_BY(mutex_) = 0;

  // The writing thread's.
  TimelineFile file_;
  TimelineTracks tracks_;
  bool broken_ = false;

  std::atomic<bool> stopping_{false};
  DoorbellState bell_state_;
  Doorbell bell_{bell_state_};
  std::thread writer_;  // last: it uses the rest
};

}  // namespace hvd
