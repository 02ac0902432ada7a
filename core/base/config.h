#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/clock.h"

namespace hvd {

// What the environment says. Malformed values throw InvalidArgumentError naming the variable, the
// value and what is accepted.
struct Config {
  // Bytes that may share one fused batch; 0 turns fusion off. HOROVOD_FUSION_THRESHOLD.
  std::size_t fusion_threshold = 1 << 20;
  // Least time between two batches. HOROVOD_CYCLE_TIME, in milliseconds.
  Duration batching_gap = Duration::zero();
  // Response slots. HOROVOD_CACHE_CAPACITY.
  std::size_t cache_capacity = 1024;
  // A tensor that some ranks did not submit is reported after this long; zero = never.
  // HOROVOD_STALL_CHECK_TIME_SECONDS, HOROVOD_STALL_CHECK_DISABLE.
  Duration stall_warning = std::chrono::seconds(60);
  // ... and given up after this long; zero = never. HOROVOD_STALL_SHUTDOWN_TIME_SECONDS.
  Duration stall_limit = std::chrono::seconds(600);
  // How long init() waits for the other ranks. HOROVOD_START_TIMEOUT, in seconds.
  Duration start_timeout = std::chrono::seconds(60);
  // Ranks with one host identity share memory. HOROVOD_HOSTNAME; empty = ask the system.
  std::string hostname;
  // Chrome trace of this job, written by rank 0. HOROVOD_TIMELINE; empty = none.
  std::string timeline;
};

Config read_config();

// What a launcher said about this process. `launcher` names whose variables were found.
struct LaunchInfo {
  std::string launcher;  // "Open MPI", "hvdrun", "Slurm", ...; empty = started by hand
  std::optional<int> rank;
  std::optional<int> size;
  bool speaks_mpi = false;  // MPI_Init will find the other ranks
};

// Looks at the variables launchers set. Never throws: what it finds may be incomplete. The shell of
// a Slurm allocation (salloc, a batch script) is no launcher, only its job steps are.
LaunchInfo read_launch_info();

// The only way to the environment outside config.cc; empty optional when unset.
std::optional<std::string> environment(const char* name);

}  // namespace hvd
