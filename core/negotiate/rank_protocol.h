#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/negotiate/decision.h"
#include "core/negotiate/fusion_plan.h"
#include "core/negotiate/messages/request.h"

namespace hvd {

// Names one submission on its own rank; the caller's choice, never sent.
using Ticket = std::uint64_t;

// ---- effects: what the runtime must do, in the order of the log

struct BatchMember {
  Ticket ticket = 0;  // 0 = this rank has joined: it brings the neutral element
  std::shared_ptr<const Request> request;
};

// One fused batch: every member has this key, but for an arena that a joined rank cannot bring:
// then it says 0.
struct RunBatch {
  std::uint64_t number = 0;  // counts batches, equal on all ranks; given back to finished()
  FusionKey key;
  int divisor = 1;        // ranks that contribute: what an average divides by
  std::size_t bytes = 0;  // of the tensors, alignment gaps included
  std::vector<BatchMember> members;
};

// The process set exists from here on; its Collective has to be made before the next effect.
struct SetAdded {
  Ticket ticket = 0;
  ProcessSetId set = kWorldSet;
  std::vector<Rank> ranks;  // ascending
};

// Nothing of the set follows.
struct SetRemoved {
  Ticket ticket = 0;
  ProcessSetId set = kWorldSet;
};

// All ranks of the set have joined, and may submit again.
struct AllJoined {
  Ticket ticket = 0;
  Rank last = 0;  // who joined last, the same on all of them
};

// Rank 0 wants to know what this rank's program is doing: answer with
// RankProtocol::status_reported().
struct ProbeRanks {};

// The submission failed; the job goes on.
struct FailTicket {
  Ticket ticket = 0;
  Status status;
};

// A report for the user (stall warning): log it.
struct Report {
  std::string text;
};

// The last effect: every pending submission fails with `why`. After an orderly end the batches that
// were issued before it still finish; otherwise nothing runs any more and they are aborted.
struct Stopped {
  Status why;
  bool orderly = false;  // a rank left; its number is in `why`
  // What this rank has pending for longest, and which of its submissions that is.
  std::string waits_for = {};  // empty = nothing
  std::uint64_t waits_number = 0;
};

using Effect = std::variant<RunBatch, FailTicket, SetAdded, SetRemoved, AllJoined, ProbeRanks,
                            Report, Stopped>;

struct OutgoingMessage {
  Rank to = 0;
  Bytes bytes;
};

// One rank's side of the negotiation (and rank 0's sequencer). A value machine: events go in,
// messages and effects come out; it has no thread, no clock and no transport. Not thread-safe.
class RankProtocol {
 public:
  // `epoch` tells Runtimes of one process lifetime apart: messages of another epoch are dropped.
  RankProtocol(Tree tree, NegotiationSettings settings, std::uint32_t epoch = 0);
  ~RankProtocol();
  RankProtocol(RankProtocol&&) noexcept;
  RankProtocol& operator=(RankProtocol&&) noexcept;

  // -- events. None of them waits.

  // Throws InvalidArgumentError when request.name is pending on this rank, its set is unknown or
  // does not have this rank or its root, or this rank has joined; and the reason once this rank has
  // left or the job has stopped. kJoin is announced once nothing else of its set is pending here.
  void submit(Ticket ticket, const Request& request);
  // A batch is finished on this rank (credit goes back to rank 0).
  void finished(std::uint64_t batch);
  // The answer to ProbeRanks: where this rank's program is ("train.py:12"); empty = it cannot say.
  void status_reported(const std::string& where);
  // Rank 0: until `deadline` nobody is blamed for waiting for rank 0.
  void expect_wait_for_root(TimePoint deadline);
  // Rank 0: everything decided later is done under these.
  void change_settings(const NegotiationSettings& settings);
  // Orderly shutdown: nothing is submitted after this.
  void leave();
  // This rank cannot go on: stops the job on all ranks with `why`.
  void fail(const Status& why);
  // This rank saw that `rank` is gone; `why` names it, and is what every rank gets to read. Every
  // neighbour of a dead rank in the tree must be told so; ranks that merely left have stopped
  // before (then this only ends the wait for them).
  void peer_lost(Rank rank, const Status& why);
  // Throws PeerLostError on a malformed message; the protocol is unchanged then.
  void receive(Rank from, std::span<const std::byte> message);
  // Time passes: stall reports and limits, the batching gap. `now` never goes back.
  void tick(TimePoint now);

  // -- effects

  // Empty when there is nothing (more) to send. Messages to one rank arrive in this order. What was
  // submitted since the last call travels in one message, so submit all that is there first; send
  // before executing effects.
  std::optional<OutgoingMessage> next_message();
  std::optional<Effect> next_effect();

  // What the caller has done with: its storage serves again, so that a steady flow allocates
  // nothing.
  void reuse(OutgoingMessage&& sent);
  void reuse(RunBatch&& done);

  // Those of the log as far as it was applied here.
  const NegotiationSettings& settings() const;
  // When tick() must be called at the latest; empty = no timer runs.
  std::optional<TimePoint> next_deadline() const;
  // Stop was applied here and all children confirmed it: this rank may go.
  bool finished_leaving() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvd
