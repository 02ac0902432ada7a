#pragma once

#include <optional>
#include <string>

namespace hvd {

// What a launcher said about this process. `launcher` names whose variables were found.
struct LaunchInfo {
  std::string launcher;  // "Open MPI", "hvdrun", "Slurm", ...; empty = started by hand
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
