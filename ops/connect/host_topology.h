#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"
#include "core/config/config.h"
#include "core/ports/rendezvous.h"
#include "ops/connect/introduction.h"
#include "ops/shm/data_segment.h"
#include "ops/shm/process.h"
#include "ops/shm/shared_memory.h"

namespace hvd::engine {

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

// What the ranks of one host have of each other.
struct HostSharing {
  std::shared_ptr<SharedMemory> memory;  // that all of them map; null if this rank is alone there
  std::vector<UniqueFd> arena_files;     // by rank of the host: see ArenaFiles
  std::vector<ProcessHandle> processes;  // by rank of the host
};

// Makes memory for the ranks of this host and hands it out, with descriptors of their processes,
// over a Unix socket of a random name, to processes of this user only. So nothing has a name that
// could be left behind or found by others, and the ranks may be in different PID namespaces (the
// containers of a pod) and user namespaces. They have to be in one network namespace.
// Every rank of the world calls it. Either all of them succeed or all throw the same, which says
// what the ranks met: UnsupportedError. Throws as others.all_gather() too.
HostSharing share_host(Rendezvous& others, const HostTopology& here,
                       const DataSegment::Needs& needs, TimePoint deadline);

}  // namespace hvd::engine
