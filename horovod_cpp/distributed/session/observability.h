#pragma once

#include <optional>
#include <string>

#include "core/observe/metrics.h"

// What can be seen of the job of init(). Any thread; InvalidArgumentError before init().
namespace hvd {

// Records what all ranks do into one Chrome trace (ui.perfetto.dev), written by rank 0 by its own
// clock; it can be read at any moment, and its closing bracket comes at the end. `mark_cycles` adds
// a mark for each decision of rank 0 (absent: as HOROVOD_TIMELINE_MARK_CYCLES says). Every rank may
// call these, rank 0's calls count. start throws InvalidArgumentError when it records already or
// the file cannot be written; stop waits at most kTimelineLimit (core/base/deadlines.h) for what is
// on its way, and does nothing when nothing is recorded.
void start_timeline(const std::string& path, std::optional<bool> mark_cycles = {});
void stop_timeline();

// Counters and histograms of this rank; on rank 0 also what the others reported.
MetricsSnapshot metrics();
// Six lines for people: bytes and batches, exposed time, who is slow, how old each rank's numbers
// are. On other ranks than 0: of this rank. No newline at the end.
std::string summary();
// metrics() in Prometheus' text format.
std::string metrics_text();

// Writes this rank's last operations as JSON. Throws InvalidArgumentError with path and reason.
void dump_flight_recorder(const std::string& path);

}  // namespace hvd
