#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/topology.h"

namespace hvd::engine {

// Which rank is where: the same on every rank except `rank`.
struct Placement {
  Rank rank = 0;
  std::vector<int> host_of = {0};  // by rank; hosts count in order of their lowest rank
  std::vector<std::string> host_names = {"?"};  // by host, for messages to people

  int size() const { return static_cast<int>(host_of.size()); }
  int hosts() const { return static_cast<int>(host_names.size()); }
  const std::string& host_name(Rank of) const {
    return host_names[static_cast<std::size_t>(host_of[static_cast<std::size_t>(of)])];
  }
  // On the host of `rank`.
  bool is_local(Rank other) const {
    return host_of[static_cast<std::size_t>(other)] == host_of[static_cast<std::size_t>(rank)];
  }
  // "rank 3 on host a"
  std::string described(Rank of) const {
    return "rank " + std::to_string(of) + " on host " + host_name(of);
  }
};

// Ranks with equal identity share a host. `identities` and `names` have one entry per rank; a host
// is called what its lowest rank calls it.
Placement place(Rank rank, std::span<const std::string> identities,
                std::span<const std::string> names);

Topology topology_of(const Placement& placement);

// The ranks on the host of `placement.rank`, ascending; that rank among them.
std::vector<Rank> local_ranks(const Placement& placement);

// Where the ranks of a job meet before they have ports: a few short texts at init. One thread.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual Rank rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // What all ranks knew before they met and no other process does; empty = nothing.
  virtual std::string secret() const { return {}; }
  // Every rank's text, by rank. Collective; waits for the others. Throws StalledError naming those
  // who are missing at the deadline; what one rank throws, all do.
  virtual std::vector<std::string> all_gather(const std::string& mine, TimePoint deadline) = 0;
};

// What rank 0 answers when it has the texts of all, or why it has not.
Bytes encode_gathered(std::span<const std::string> texts);
Bytes encode_gather_failure(const Status& why);
// The texts of `size` ranks. Throws what rank 0 reported, PeerLostError if it is malformed.
std::vector<std::string> decode_gathered(std::span<const std::byte> answer, int size);

// The ranks that are false in `here`: "1, 3", and not all of them if they are many.
std::string list_of_missing(const std::vector<bool>& here);
// What becomes of a gathering in which the ranks that are false in `here` did not show up.
Status missing_ranks(const std::vector<bool>& here);
// What a rank says that waited for rank 0.
Status missing_answer();
// What rank 0 answers when its program ended the wait (InterruptibleWaits).
Status interrupted_meeting();

}  // namespace hvd::engine
