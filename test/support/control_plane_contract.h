#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/ports/control_plane.h"

namespace hvd::engine::test {

// One promise of the port ControlPlane (core/ports/control_plane.h). Every rank calls `run` at
// the same time with its own plane, in a thread or a process of its own; failures are reported
// through GoogleTest on the rank that sees them, exceptions too. Cases may share planes if no rank
// begins one before every rank has ended the one before (MPI_Barrier, joined threads).
struct ControlPlaneCase {
  std::string name;  // letters, digits and underscores
  std::function<void(ControlPlane&, Rank rank, int size)> run;
};

std::vector<ControlPlaneCase> control_plane_contract();

// Sleeps on the doorbell until a message is here. Throws std::runtime_error after 30 s, and what
// poll() throws.
Message next_message(ControlPlane& plane);

}  // namespace hvd::engine::test
