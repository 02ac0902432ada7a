#pragma once

#include <memory>
#include <vector>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"
#include "core/ports/placement.h"
#include "core/ports/rendezvous.h"
#include "ops/shm/data_segment.h"
#include "ops/shm/process.h"
#include "ops/shm/shared_memory.h"

namespace hvd {

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
// `processes`: those of the ranks of this host, by rank of the host.
HostSharing share_host(Rendezvous& others, const Placement& placement,
                       const std::vector<ProcessId>& processes, const DataSegment::Needs& needs,
                       TimePoint deadline);

}  // namespace hvd
