#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/unique_fd.h"
#include "core/config/launch_info.h"
#include "core/ports/rendezvous.h"

namespace hvd {

// Where rank 0 listens. All of them are for the ranks of one machine.
struct MeetingPoint {
  enum class Kind {
    kTcp,   // a port of a loopback address
    kUnix,  // a name in the network namespace, which vanishes with rank 0; this user's only
    kFile,  // a file in which rank 0 leaves such a name
  };
  Kind kind = Kind::kUnix;
  std::string where;       // IPv4 address, name, absolute path
  std::uint16_t port = 0;  // kTcp
};

// Reads "tcp://127.0.0.1:29400", "tcp://localhost:29400", "unix:NAME", "file:///folder/name".
// Throws InvalidArgumentError naming `origin`, the text and what is accepted, UnsupportedError that
// points to hvdrun for an address of another machine.
MeetingPoint parse_meeting_point(std::string_view text, const std::string& origin);

std::string to_string(const MeetingPoint& point);

// Not for kFile. Throws InvalidArgumentError if somebody else listens there.
UniqueFd listen_at(const MeetingPoint& point);
// The next connection; empty with errno set if there is none, or another user made it (EPERM).
UniqueFd accept_from(const UniqueFd& listener, const MeetingPoint& point);
// Empty, and `why` says why, when nobody listens there (yet). Throws PeerLostError if another user
// does.
UniqueFd connect_to(const MeetingPoint& point, std::string& why);

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
