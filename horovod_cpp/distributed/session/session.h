#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/config.h"
#include "core/observe/metrics_snapshot.h"
#include "horovod_cpp/distributed/collectives/process_set.h"

namespace hvd {

// The process-wide job, as in Horovod. All of these may be called from any thread.

struct InitOptions {
  // Process sets to make at once, by their ranks; equal on every rank. They get the numbers 1, 2,
  // ... in this order: process_set(1) is the first.
  std::vector<std::vector<Rank>> process_sets = {};
};

// Finds the other ranks and connects to them; collective. A program that no launcher started is a
// world of one. Does nothing while initialised; may be called again after shutdown(), any number of
// times. Throws InvalidArgumentError on a malformed HOROVOD_* variable or process set, and, on all
// ranks at once, where settings or process sets differ that all ranks must have alike (it names
// them, the ranks and the values); UnsupportedError when a launcher started this process that
// cannot be understood, or the ranks run different builds of this library; StalledError naming who
// did not come within HOROVOD_START_TIMEOUT seconds.
void init(const InitOptions& options = {});

// Leaves in order: what is complete on all ranks still runs, the rest fails with AbortedError here
// and on the other ranks. Does nothing when not initialised. Also called at exit, unless the exit
// status is a failure: then the other ranks lose this one.
void shutdown();

bool is_initialized();

// Where this process stands: among all ranks, among those of its host (local), and among those with
// its local_rank on all hosts (cross). Throw InvalidArgumentError before init().
int rank();
int size();
int local_rank();
int local_size();
int cross_rank();
int cross_size();
// Every host has the same number of ranks.
bool is_homogeneous();

// Whether this job uses MPI, and whether MPI granted it MPI_THREAD_MULTIPLE (InvalidArgumentError
// when it does not use MPI). What this build could use is told by backends()
// (ops/connect/backends.h).
bool mpi_enabled();
bool mpi_threads_supported();

// Every setting with its value and where it came from: those in force, or before init() those that
// it would take. Throws InvalidArgumentError on a malformed variable.
std::vector<SettingInfo> config();

// `report` gets the text of every stall warning, besides the log, on a thread of the engine's own.
// Null = nobody. Holds for later jobs too.
void on_stall(std::function<void(const std::string&)> report);
// `where` says where this program is ("train.cc:12"), for stall reports of rank 0. Called on a
// thread of the engine's own when somebody waits for this rank; may take a lock that the program
// holds meanwhile (then the report goes without it). Null = nobody. Holds for later jobs too.
void set_location_callback(std::function<std::string()> where);

}  // namespace hvd

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
