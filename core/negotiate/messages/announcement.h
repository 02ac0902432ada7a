#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/topology.h"
#include "core/negotiate/messages/request.h"

namespace hvd::engine {

using SlotNumber = std::uint32_t;

// A request that `count` ranks announced, `lowest` being the first of them.
struct Variant {
  Request request;
  Rank lowest = 0;
  int count = 1;

  friend bool operator==(const Variant&, const Variant&) = default;
};

// What ranks announced for one name: one variant when they agree. Two are enough to say how they
// disagree; further ones are counted with the second, and one of a call of several requests is
// kept. Places and flags do not make a variant: see merge().
using Variants = std::vector<Variant>;

inline constexpr std::size_t kMaxVariants = 2;

void merge(Variants& into, const Variant& variant);

// What a rank brings to a small allreduce. It travels with the announcement of the slot, so that
// rank 0 can reduce it and send the result with its decision (what MPI calls an eager message).
struct EagerValues {
  SlotNumber slot = 0;
  Rank rank = 0;
  Bytes values;  // of its tensors, one after the other

  friend bool operator==(const EagerValues&, const EagerValues&) = default;
};

// A name that has been incomplete below the sender for a while.
struct MissingRanks {
  ProcessSetId set = kWorldSet;
  std::string name;
  Duration held = Duration::zero();  // by the node that has held it longest
  std::vector<Rank> missing;         // ascending

  friend bool operator==(const MissingRanks&, const MissingRanks&) = default;
};

// A rank's join: it has no more data in this set.
struct Joining {
  ProcessSetId set = kWorldSet;
  Rank rank = 0;
  bool joins_average = false;

  friend bool operator==(const Joining&, const Joining&) = default;
};

// A rank that leaves in order, and how many submissions it had made.
struct Leaving {
  Rank rank = 0;
  std::uint64_t submissions = 0;

  friend bool operator==(const Leaving&, const Leaving&) = default;
};

// A rank's answer to the step `ask`.
struct RankStatus {
  Rank rank = 0;
  std::uint64_t ask = 0;            // which one, counted from 1
  std::uint64_t submissions = 0;    // it has made this many
  std::string last_submitted;       // empty = nothing yet
  std::uint64_t pending = 0;        // of its submissions
  std::string waits_for;            // of those, the one that has waited longest
  std::uint64_t waits_number = 0;   // and which submission that was
  std::vector<ProcessSetId> joins;  // sets in which it has called join() and waits
  std::string where;                // its program is here; empty = it cannot say

  friend bool operator==(const RankStatus&, const RankStatus&) = default;
};

// Message up the tree: what became ready at the sender and on all ranks below it.
struct Announcement {
  std::uint64_t applied = 0;  // number of the last decision the sender had applied
  // Announced by every rank at and below the sender, as the slot says.
  std::vector<SlotNumber> slots;
  std::vector<EagerValues> eager;  // of some of `slots`, from some of the ranks
  std::vector<Variants> names;     // in full; each entry is about one name
  std::vector<Leaving> leaving;
  std::vector<Joining> joined;
  std::vector<std::uint64_t> finished;  // batches, told by the lowest rank of their set
  std::vector<MissingRanks> absences;
  std::vector<RankStatus> rank_statuses;

  bool empty() const {  // `eager` is of slots
    return slots.empty() && names.empty() && leaving.empty() && joined.empty() &&
           finished.empty() && absences.empty() && rank_statuses.empty();
  }
  // Keeps the storage.
  void clear();

  friend bool operator==(const Announcement&, const Announcement&) = default;
};

template <typename Io>
void serialize(Io& io, Fields<Io, Joining>& joining);

// The reader reuses the storage of `announcement`, and expects the end of the message behind it.
// Throws PeerLostError on a malformed message.
template <typename Io>
void serialize(Io& io, Fields<Io, Announcement>& announcement);

}  // namespace hvd::engine
