#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "runner/plan/options.h"

namespace hvd::runner {

// What Slurm granted to this job.
struct SlurmJob {
  std::vector<HostSlots> hosts;
  std::optional<int> tasks;  // -n of sbatch or salloc
};

// Reads SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE and SLURM_NTASKS; nothing outside an allocation.
// Throws InvalidArgumentError naming the variable and its value when it cannot be understood.
std::optional<SlurmJob> slurm_job(const Environment& environment);

// "n[01-03,07],m1" -> n01 n02 n03 n07 m1. Also "r[1-2]n[1-2]". Throws as above.
std::vector<std::string> expand_nodes(std::string_view text);

// "2(x3),1" -> 2 2 2 1. Throws as above.
std::vector<int> expand_counts(std::string_view text);

}  // namespace hvd::runner
