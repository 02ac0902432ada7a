#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/topology.h"

namespace hvd {

// Where the ranks of a job meet before they have ports: a few short texts at init. One thread.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual Rank rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // Every rank's text, by rank. Collective; waits for the others. Throws StalledError naming those
  // who are missing at the deadline; what one rank throws, all do.
  virtual std::vector<std::string> all_gather(const std::string& mine, TimePoint deadline) = 0;
};

// What rank 0 answers when it has the texts of all, or why it has not.
Bytes encode_gathered(std::span<const std::string> texts);
Bytes encode_gather_failure(const Status& why);
// The texts of `size` ranks. Throws what rank 0 reported, PeerLostError if it is malformed.
std::vector<std::string> decode_gathered(std::span<const std::byte> answer, int size);

// What becomes of a gathering in which the ranks that are false in `here` did not show up.
Status missing_ranks(const std::vector<bool>& here);
// What a rank says that waited for rank 0.
Status missing_answer();
// What rank 0 answers when its program ended the wait (InterruptibleWaits).
Status interrupted_meeting();

}  // namespace hvd
