#include "core/observe/observability.h"

namespace hvd {

Observability::Observability(Rank rank, int size, const ObservabilityOptions& options)
    : timeline_(std::make_shared<Timeline>(rank, options.timeline)),
      metrics_(std::make_shared<Metrics>(rank, size)),
      recorder_(std::make_shared<FlightRecorder>(rank, size, options.flight_recorder)) {}

ObserverList Observability::observers() const {
  return {timeline_, metrics_, recorder_};
}

}  // namespace hvd
