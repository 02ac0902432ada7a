#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/negotiate/announcer.h"
#include "core/negotiate/decision.h"
#include "core/negotiate/decision_check.h"
#include "core/negotiate/effects.h"
#include "core/negotiate/log_replica.h"
#include "core/negotiate/message_queue.h"
#include "core/negotiate/messages/announcement.h"
#include "core/negotiate/sequencer.h"
#include "core/negotiate/stall_watch.h"
#include "core/negotiate/stopping.h"

namespace hvd::engine {

// One rank's side of the negotiation (and rank 0's sequencer). A value machine: events go in,
// messages and effects come out; it has no thread, no clock and no transport. Not thread-safe.
class RankProtocol final {
 public:
  // `epoch` tells Runtimes of one process lifetime apart: messages of another epoch are dropped.
  // `reduce`: as the Sequencer has it.
  RankProtocol(Tree tree, const NegotiationSettings& settings, std::uint32_t epoch = 0,
               ReduceHere reduce = nullptr);
  RankProtocol(const RankProtocol&) = delete;
  RankProtocol& operator=(const RankProtocol&) = delete;

  // -- events. None of them waits.

  // Throws InvalidArgumentError when request.name is pending on this rank, its set is unknown or
  // does not have this rank or its root, or this rank has joined; and the reason once this rank has
  // left or the job has stopped. kJoin is announced once nothing else of its set is pending here.
  // `values`: see EagerValues; none, or eager_bytes() of them. True if they travel.
  bool submit(Ticket ticket, const Request& request, Bytes values = {});
  // A batch is finished on this rank (credit goes back to rank 0).
  void finished(std::uint64_t batch);
  // The answer to ProbeRanks: where this rank's program is ("train.py:12"); empty = it cannot say.
  void status_reported(const std::string& where);
  // Rank 0: until `deadline` no rank is blamed for waiting for rank 0.
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
  void reuse(OutgoingMessage&& sent) { messages_.reuse(std::move(sent)); }
  void reuse(RunBatch&& done) { replica_.reuse(std::move(done)); }

  // Those of the log as far as it was applied here.
  const NegotiationSettings& settings() const { return log_.settings; }
  // When tick() must be called at the latest; empty = no timer runs.
  std::optional<TimePoint> next_deadline() const;
  // Stop was applied here and all children confirmed it: this rank may go.
  bool finished_leaving() const { return stopping_.finished(); }

 private:
  bool root() const { return tree_.rank == 0; }
  void need_root(const char* what) const;
  void receive_announcement(Rank from, ByteReader& in);
  void receive_decision(std::span<const std::byte> message, ByteReader& in);
  void receive_abort(ByteReader& in);
  void receive_probe(Rank from, ByteReader& in);
  // What became ready here goes up (rank 0: to the sequencer and down again).
  void flush();
  void apply();  // decision_
  // Stops here and tells the others.
  void abort(const AbortNotice& notice);
  void stop(const Status& why, bool orderly);
  void give_up_parent(const Status& why);
  StallWatch::Load load() const;

  const Tree tree_;
  MessageQueue messages_;
  Fifo<Effect> effects_;
  LogState log_;
  Announcer announcer_;
  StallWatch stalls_;
  LogReplica replica_;
  DecisionCheck check_decision_;
  std::optional<Sequencer> sequencer_;  // rank 0 only
  Stopping stopping_;
  TimePoint now_{};
  Announcement incoming_;  // kept for its storage, like
  Decision decision_;
};

}  // namespace hvd::engine
