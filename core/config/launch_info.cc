#include "core/config/launch_info.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/config/config.h"
#include "core/system/process.h"

namespace hvd {
namespace {

// What has to be set for the launcher to be found. Only our own names are set by no other program:
// half of them is a mistake, and no reason to run as a job of one rank.
enum class Proof { kRank, kRankAndSize, kRankOrSize, kTorchrun };

struct LauncherVariables {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  bool speaks_mpi;
  Proof proof;
  const char* other_size = "";  // where `size` is not set
};

constexpr const char* kSlurm = "Slurm";

// In order of trust: MPI's own variables name the world that MPI_Init will find, whoever started
// mpirun; then our launcher's, then those that others set. PMIx comes after ours, because Open MPI
// sets PMIX_RANK itself where a program initialises MPI that no mpirun has started. Slurm's number
// of tasks is the step's where there is a step: an allocation may be larger.
constexpr LauncherVariables kLaunchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", true, Proof::kRank},
    {"MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", true,
     Proof::kRank},
    {"hvdrun", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", false,
     Proof::kRankOrSize},
    {"PMIx", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", true, Proof::kRank},
    {kSlurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", false,
     Proof::kRankAndSize, "SLURM_NTASKS"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false, Proof::kTorchrun},
    {"whoever set RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
     false, Proof::kRankAndSize},
};

std::optional<int> read_int(const char* name) {
  const auto text = environment(name);
  return text ? parse_number<int>(*text) : std::nullopt;
}

const char* size_variable(const LauncherVariables& row) {
  return environment(row.size) ? row.size : row.other_size;
}

bool is_proven(const LauncherVariables& row) {
  const bool has_rank = environment(row.rank).has_value();
  const bool has_size = environment(size_variable(row)).has_value();
  switch (row.proof) {
    case Proof::kRank:
      return has_rank;
    case Proof::kRankAndSize:
      return has_rank && has_size;
    case Proof::kRankOrSize:
      return has_rank || has_size;
    case Proof::kTorchrun:
      return has_rank && has_size && environment("TORCHELASTIC_RUN_ID");
  }
  return false;
}

// A batch script has a SLURM_PROCID too, but it is one process, started once; srun's tasks inherit
// its variables and have a step. What torchrun starts in a step inherits those of torchrun's task.
bool is_no_task_of_slurms() {
  const bool in_batch_script =
      environment("ENVIRONMENT") == "BATCH" && !environment("SLURM_STEP_ID");
  return in_batch_script || environment("TORCHELASTIC_RUN_ID");
}

}  // namespace

bool has_own_world() {
  return environment("HVD_WORLD") == "self";
}

LaunchInfo read_launch_info() {
  if (has_own_world()) return {};
  for (const LauncherVariables& row : kLaunchers) {
    if (!is_proven(row)) continue;
    if (row.launcher == std::string_view(kSlurm) && is_no_task_of_slurms()) continue;
    return {row.launcher,
            read_int(row.rank),
            read_int(size_variable(row)),
            read_int(row.local_rank),
            read_int(row.local_size),
            row.speaks_mpi};
  }
  return {};
}

std::string launch_advice(const std::string& launcher) {
  const bool under_slurm = environment("SLURM_JOB_ID").has_value();
  if (launcher != kSlurm && !under_slurm) {
    return "start the program with hvdrun or mpirun; if it was meant to run alone, unset that "
           "launcher's variables";
  }
  return "use 'srun --mpi=pmix' ('srun --mpi=list' shows whether this Slurm has PMIx; Open MPI 5 "
         "understands nothing else), or, inside the allocation of sbatch or salloc, 'hvdrun "
         "program' in place of 'srun program'; if it was meant to run alone, use 'srun -n 1'";
}

namespace {

std::string text(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "?";
}

// Equal for two processes only if one has it from the other.
std::string place_of(const LaunchInfo& launch) {
  std::string place = launch.launcher + " " + text(launch.rank) + "/" + text(launch.size);
  for (const char* name : {"HVD_RENDEZVOUS", "MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE",
                           "PMI_JOBID", "PMI_FD", "SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    if (const auto value = environment(name)) place += " " + *value;
  }
  return place;
}

}  // namespace

void take_place(const LaunchInfo& launch) {
  static std::optional<std::uint32_t> taken;  // by this process or one that forked it: when
  if (taken) engine::throw_if_forked(*taken);
  const std::string mine = std::to_string(getpid());
  const std::string place = place_of(launch);
  const std::string mark = environment(kRankProcessVariable).value_or("");
  const std::string taker = mark.substr(0, mark.find(' '));
  if (!taker.empty() && taker != mine && mark == taker + " " + place) {
    throw InvalidArgumentError("this process was started by rank " + text(launch.rank) + " (pid " +
                               taker +
                               ") and inherited its place; a rank is one process. HVD_WORLD=self "
                               "gives this one a world of its own; Python's multiprocessing "
                               "imports the main script again, whose init() belongs below "
                               "if __name__ == \"__main__\"");
  }
  setenv(kRankProcessVariable, (mine + " " + place).c_str(), 1);
  taken = engine::fork_generation();
}

}  // namespace hvd
