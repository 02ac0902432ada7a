#pragma once

#include <optional>
#include <string>

namespace hvd {

// What a launcher said about this process. `launcher` names whose variables were found.
struct LaunchInfo {
  // "Open MPI", "hvdrun", "Slurm", ...; "whoever set RANK and WORLD_SIZE" for people and for
  // launchers of PyTorch's except torchrun; empty = a program that is started alone.
  std::string launcher;
  std::optional<int> rank;
  std::optional<int> size;
  std::optional<int> local_rank;  // among the ranks of this host
  std::optional<int> local_size;  // ranks of this host
  bool speaks_mpi = false;        // MPI_Init will find the other ranks
};

// Whether the user wants this process to be a world of one, whoever started it: HVD_WORLD=self. All
// that launchers left is then another process's.
bool has_own_world();

// Looks at the variables launchers set; finds none if has_own_world(). Never throws: what it finds
// may be incomplete. The shell of a Slurm allocation (salloc, a batch script) is no launcher, only
// its job steps are.
LaunchInfo read_launch_info();

// How to start the program so that its ranks find each other, when `launcher` does not do it.
std::string launch_advice(const std::string& launcher);

}  // namespace hvd

// A rank's place in its job is in variables of its launcher, which every process that the rank
// starts inherits. There it must not be taken a second time: MPI would abort, and ranks would meet
// the wrong process. So the process that takes a place leaves a mark for those that inherit it.
namespace hvd {

// Names the process that took the place, and the place: one that differs was given to the process
// itself, by a launcher of its own.
inline constexpr const char* kRankProcessVariable = "HVD_RANK_PROCESS";

// This process takes the place that `launch` describes. The first call sets kRankProcessVariable;
// any number may follow, also after exec(). Throws InvalidArgumentError if a process that
// started this one has taken the place, AbortedError if one that forked it has.
void take_place(const LaunchInfo& launch);

}  // namespace hvd
