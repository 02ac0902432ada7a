#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/config/config.h"
#include "core/ports/collective.h"
#include "core/ports/control_plane.h"
#include "ops/connect/gpu_assignments.h"
#include "ops/connect/introduction.h"
#include "ops/connect/libraries.h"

namespace hvd::engine {

// The ports of one rank.
struct Ports {
  std::unique_ptr<ControlPlane> control;
  std::vector<std::unique_ptr<Collective>> collectives;
  // Whether MPI granted MPI_THREAD_MULTIPLE; empty = this job does without MPI.
  std::optional<bool> mpi_threads;
  // To be told when the job has ended, and whether other than in order; empty = not needed.
  std::function<void(bool in_error)> ended;
  // What serves the tensors of GPUs; empty = nothing does.
  std::optional<RankGpu> gpu;
  // As all ranks agreed on it: what is in force.
  Config config;
};

// One row of the table of backends, for --check-build and the doctor.
struct BackendInfo {
  std::string name;     // "self", "shm", "mpi", ...
  bool usable = false;  // here and now
  std::string detail;   // version and place, or why it is not usable and what to do
};

std::vector<BackendInfo> backends();

// Finds the other ranks of this job (by what its launcher left in the environment) and connects to
// them; a program started by hand is a world of one. Collective. Throws UnsupportedError when a
// launcher started this process that cannot be understood (never a silent world of one), or the
// ranks run different builds, StalledError naming who is missing after config.start_timeout, and,
// on every rank at once, InvalidArgumentError naming what has to be equal and is not: settings of
// `config` and `arguments`, which are those of init().
Ports connect(const Config& config, std::span<const Term> arguments = {});

}  // namespace hvd::engine
