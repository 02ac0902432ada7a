#pragma once

#include <memory>

#include "core/base/topology.h"
#include "core/observe/flight_recorder.h"
#include "core/observe/metrics.h"
#include "core/observe/observer.h"
#include "core/observe/timeline.h"

namespace hvd::engine {

struct ObservabilityOptions {
  TimelineOptions timeline = {};
  FlightRecorderOptions flight_recorder = {};
};

// What watches one Runtime: give observers() to it on every rank. Outlives the Runtime, so that its
// destructor completes a timeline that is still being recorded. Any thread.
struct Observability {
  Observability(Rank rank, int size, const ObservabilityOptions& options = {})
      : timeline(std::make_shared<Timeline>(rank, options.timeline)),
        metrics(std::make_shared<Metrics>(rank, size)),
        recorder(std::make_shared<FlightRecorder>(rank, size, options.flight_recorder)) {}

  ObserverList observers() const { return {timeline, metrics, recorder}; }

  const std::shared_ptr<Timeline> timeline;
  const std::shared_ptr<Metrics> metrics;
  const std::shared_ptr<FlightRecorder> recorder;
};

}  // namespace hvd::engine
