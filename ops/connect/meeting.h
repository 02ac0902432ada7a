#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/config/launch_info.h"
#include "core/ports/rendezvous.h"
#include "ops/connect/meeting_point.h"

namespace hvd {

// What a rank has to know to meet the others without MPI.
struct Meeting {
  MeetingPoint point;
  Rank rank = 0;
  int size = 1;
  std::string key;  // empty = none; kTcp needs one
};

// By what the launcher said and by `url` (the setting HVD_RENDEZVOUS; empty or "env://" = by
// MASTER_ADDR and MASTER_PORT, which torchrun sets). Nothing if there is no word about a place.
// Throws InvalidArgumentError for values that make no sense, and UnsupportedError that points to
// hvdrun if the job has ranks on several machines.
//
// The port of MASTER_PORT itself is not used: torchrun and torch.distributed listen there. It only
// makes the name of a unix socket.
std::optional<Meeting> find_meeting(const LaunchInfo& launch, const std::string& url);

// Rank 0 listens and returns, the others wait for it; then all_gather() waits for everyone. Throws
// InvalidArgumentError for a port without a key, which any user of the machine could take, and what
// the constructors of RendezvousServer, RendezvousClient and RendezvousFile do, and
// await_folder_of().
std::unique_ptr<Rendezvous> attend(const Meeting& meeting, TimePoint deadline);

}  // namespace hvd
