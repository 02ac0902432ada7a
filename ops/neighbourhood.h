#pragma once

#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/config.h"
#include "core/base/placement.h"
#include "core/base/rendezvous.h"
#include "ops/shm/process.h"

namespace hvd {

// A rank's place in the world, and the processes of the ranks of its host.
struct Neighbourhood {
  Placement placement;
  std::vector<ProcessId> processes;
  bool shm = true;                      // tensors move through shared memory inside this host
  std::string gpu_operations = "none";  // of all ranks

  int local_size() const { return static_cast<int>(processes.size()); }
};

// What this host is called, here and in messages.
std::string name_of_host(const Config& config);

// All ranks introduce themselves to each other. Collective; throws as others.all_gather(), and
// InvalidArgumentError where what they want does not fit together.
Neighbourhood meet(Rendezvous& others, const Config& config, TimePoint deadline);

}  // namespace hvd
