#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/base/topology.h"
#include "core/observe/flight_recorder.h"
#include "core/observe/metrics.h"
#include "core/observe/observer.h"
#include "core/observe/timeline.h"

namespace hvd {

struct ObservabilityOptions {
  TimelineOptions timeline;
  FlightRecorderOptions flight_recorder;
};

// What can be seen of one Runtime: give observers() to it on every rank, then ask here. Outlives
// the Runtime, so that its destructor completes a timeline that is still being recorded. Any
// thread.
class Observability {
 public:
  Observability(Rank rank, int size, const ObservabilityOptions& options = {});

  ObserverList observers() const;

  // See Timeline::start() and stop().
  void start_timeline(const std::string& path, std::optional<bool> mark_cycles = {}) {
    timeline_->start(path, mark_cycles);
  }
  void stop_timeline() { timeline_->stop(); }

  MetricsSnapshot metrics() const { return metrics_->snapshot(); }
  std::string prometheus_text() const { return to_prometheus_text(metrics()); }
  // Rank 0, after the Runtime shut down: one line about the job.
  std::string summary() const { return summary_line(metrics()); }

  // See FlightRecorder.
  void begin_flight_recorder(const std::string& job, bool announces) {
    recorder_->begin(job, announces);
  }
  void dump_flight_recorder(const std::string& path) const { recorder_->dump(path); }

 private:
  std::shared_ptr<Timeline> timeline_;
  std::shared_ptr<Metrics> metrics_;
  std::shared_ptr<FlightRecorder> recorder_;
};

}  // namespace hvd
