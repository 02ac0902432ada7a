#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/config/config.h"
#include "core/ports/placement.h"
#include "core/ports/rendezvous.h"
#include "ops/connect/agreement.h"
#include "ops/shm/process.h"

namespace hvd {

// A rank's place in the world, and the processes of the ranks of its host.
struct HostTopology {
  Placement placement;
  std::vector<ProcessId> processes;
  bool shm = true;  // tensors move through shared memory inside this host

  int local_size() const { return static_cast<int>(processes.size()); }
};

// What this host is called, here and in messages.
std::string name_of_host(const Config& config);

// All ranks introduce themselves to each other, and agree on the settings and on `arguments` of
// init(): `config` has rank 0's values afterwards where these hold for all. Collective; throws as
// others.all_gather(), and, with the same text on every rank, what decode_introductions() and
// expect_agreement() throw.
HostTopology meet(Rendezvous& others, Config& config, std::span<const Term> arguments,
                  TimePoint deadline);

}  // namespace hvd
