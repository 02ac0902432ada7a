#pragma once

#include <cstdint>
#include <string>

#include "core/base/topology.h"
#include "core/negotiate/decision.h"
#include "core/negotiate/effects.h"
#include "core/negotiate/messages/announcement.h"
#include "core/negotiate/process_sets.h"
#include "core/negotiate/readiness_tracker.h"
#include "core/negotiate/response_cache.h"
#include "core/negotiate/submissions.h"

namespace hvd::engine {

// What all ranks know alike once they have applied the same entries of the log.
struct LogState {
  LogState(const NegotiationSettings& first, int world_size) : settings(first), sets(world_size) {}

  NegotiationSettings settings;
  ResponseCache cache;
  ProcessSets sets;
  std::uint64_t applied = 0;  // number of the last decision
};

// What this rank and those below it in the tree announced, and what of it is complete here and goes
// up.
class Announcer {
 public:
  // The arguments outlive it.
  Announcer(const Tree& tree, LogState& log)
      : tree_(tree), log_(log), readiness_(tree, log.cache, log.sets) {}

  // As RankProtocol has it, while this rank may submit.
  bool submit(Ticket ticket, const Request& request, Bytes&& values);
  // In full.
  void announce(const Request& request);
  void announce_joins();
  // The answer to step `ask` of the log.
  void report_status(std::uint64_t ask, const std::string& where);

  // What a child sent; throws PeerLostError where it does not fit what is known here.
  void check(const Announcement& below, ReadinessTracker::Reporter from) const;
  // After that; what it says of waits is the caller's.
  void take(Announcement& below, ReadinessTracker::Reporter from);

  // The entry of the log that is applied now changed who is expected in the set.
  void recount(ProcessSetId set);

  Submissions& submissions() { return submissions_; }
  const Submissions& submissions() const { return submissions_; }
  ReadinessTracker& readiness() { return readiness_; }
  // Complete here, not yet sent.
  Announcement& outbox() { return outbox_; }

 private:
  std::string fault_here(const Request& request) const;
  void check(const Variants& variants, ReadinessTracker::Reporter from) const;
  void check(const Joining& joining, ReadinessTracker::Reporter from) const;
  void check_eager(const Announcement& announcement, ReadinessTracker::Reporter from) const;

  const Tree& tree_;
  LogState& log_;
  Submissions submissions_;
  ReadinessTracker readiness_;
  Announcement outbox_;
};

}  // namespace hvd::engine
