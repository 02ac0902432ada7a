#include "horovod_cpp/distributed/session/observability.h"

#include "core/observe/observability.h"
#include "horovod_cpp/distributed/session/session.h"

namespace hvd {
namespace {

std::shared_ptr<Observability> observability() {
  return world()->options().observability;
}

}  // namespace

void start_timeline(const std::string& path, std::optional<bool> mark_cycles) {
  observability()->start_timeline(path, mark_cycles);
}

void stop_timeline() {
  observability()->stop_timeline();
}

MetricsSnapshot metrics() {
  return observability()->metrics();
}

std::string summary() {
  return summary_text(metrics());
}

std::string metrics_text() {
  return observability()->prometheus_text();
}

void dump_flight_recorder(const std::string& path) {
  observability()->dump_flight_recorder(path);
}

}  // namespace hvd
