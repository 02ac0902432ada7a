#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/config/config.h"
#include "core/config/launch_info.h"
#include "core/ports/rendezvous.h"
#include "ops/net/tcp_socket.h"

namespace hvd::engine {

// Where the ranks find rank 0, which listens.
struct MeetingPoint {
  enum class Kind {
    kTcp,   // a port of rank 0's host
    kUnix,  // a name in the network namespace, of this user only: the ranks of one host
    kFile,  // a file in which rank 0 leaves its addresses, for both kinds of ranks
  };
  Kind kind = Kind::kUnix;
  std::string where;       // name or numeric address, name, absolute path
  std::uint16_t port = 0;  // kTcp
  std::string local = {};  // kTcp: a name at which rank 0 listens for ranks of its host; or empty
};

// Reads "tcp://node1:29400", "tcp://[fd00::1]:29400", "unix:NAME", "file:///folder/name". Throws
// InvalidArgumentError naming `origin`, the text and what is accepted.
MeetingPoint parse_meeting_point(std::string_view text, const std::string& origin);

std::string to_string(const MeetingPoint& point);

// A connection to a kUnix, or to a kTcp with a numeric address. Empty, and `why` says why, when
// nothing listens there (yet), or does not answer by the deadline. Throws PeerLostError if another
// user listens.
TcpDescriptor connect_to(const MeetingPoint& point, Duration link_timeout, TimePoint deadline,
                         std::string& why);

// What a rank has to know to meet the others without MPI.
struct Meeting {
  MeetingPoint point;
  Rank rank = 0;
  int size = 1;
  std::string key = {};  // HVD_RENDEZVOUS_KEY; empty = none
  std::optional<bool> one_host =
      {};                        // all ranks are on this one; empty = the launcher says nothing
  NetworkSettings network = {};  // how rank 0 is reached from other hosts
};

// What the launcher said of it: "rank 3 of 4", with "?" for what it did not say.
std::string place_in_job(const LaunchInfo& launch);

// By what the launcher said and by config.rendezvous (empty or "env://" = by MASTER_ADDR and
// MASTER_PORT). Nothing if there is no word about a place. Throws InvalidArgumentError for values
// that make no sense, also for a place of one host that several are to meet at, UnsupportedError
// for torchrun's MASTER_PORT on several hosts, where torchrun itself listens.
//
// MASTER_PORT itself is not used by ranks of one host, where torchrun or torch.distributed may
// listen there: it only makes the name of a unix socket. Where the launcher says nothing about
// hosts (RANK and WORLD_SIZE set by hand), rank 0 listens at both.
std::optional<Meeting> find_meeting(const LaunchInfo& launch, const Config& config);

// Rank 0 listens and returns, the others wait for it; then all_gather() waits for everyone. Throws
// InvalidArgumentError for a port without a key if it is required, and what the constructors of
// RendezvousServer, RendezvousClient and RendezvousFile do, and await_folder_of().
std::unique_ptr<Rendezvous> attend(const Meeting& meeting, TimePoint deadline);

}  // namespace hvd::engine
