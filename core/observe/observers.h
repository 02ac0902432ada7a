#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/negotiate/effects.h"
#include "core/observe/observer.h"

namespace hvd::engine {

// All observers of one Runtime, and what those of different ranks say to each other. An event costs
// a branch where there are none. Each rank sends what its observers collected to rank 0 now and
// then (at most ten times per second, and at most ten thousand reports per second in all), and
// while the log says "observed" measures its clock against rank 0's. A value machine without clock
// and transport: time and messages go in, messages come out.
class Observers {
 public:
  Observers(ObserverList observers, const Topology& topology, std::uint32_t epoch = 0);

  // -- events; see Observer.

  bool empty() const { return observers_.empty(); }
  void submitted(const SubmissionInfo& submission);
  // These set the batch's times to now.
  void negotiated(BatchInfo& batch);
  void started(BatchInfo& batch);
  // The batch has its stats by now.
  void finished(BatchInfo& batch);
  void failed(std::uint64_t ticket, std::string_view name, const Status& why);
  // Once, when the log said stop or the coordinator gave up.
  void stopped(const Status& why, bool orderly);
  // Rank 0: NegotiationSettings::observed should be this from now on.
  bool wants_observed() const;

  // -- telemetry: messages for which is_observation() is true, sent past the tree.

  // Time passes, next_deadline() at the latest; `observed` is what the log says.
  void tick(TimePoint now, bool observed);
  // After Observer::stopped() and everything that finished or failed: this rank's final report goes
  // out.
  void leave(TimePoint now, bool orderly);
  // The other ranks' final reports are here or will not come any more. Before, rank 0's coordinator
  // does not end (kLastReportsLimit at most; at once if the end was not orderly).
  bool settled(TimePoint now) const { return talking_ == 0 || now >= settle_deadline_; }
  // `now` was read after the message came out of the control plane: answers carry it to measure
  // clocks. Throws PeerLostError on a malformed message.
  void receive(Rank from, std::span<const std::byte> message, TimePoint now);
  // This rank is gone: its final report will not come.
  void peer_lost(Rank rank);
  std::optional<OutgoingMessage> next_message();
  std::optional<TimePoint> next_deadline() const;

 private:
  // Part of the wire format.
  enum class Note : std::uint8_t { kCollected = 0, kFinalReport = 1, kAsk = 2, kAnswer = 3 };

  bool root() const { return rank_ == 0; }
  void tell(BatchInfo& batch, TimePoint& when, void (Observer::*event)(const BatchInfo&));
  void collect(TimePoint now, Note note);
  void receive_collected(Rank from, ByteReader& in);
  void ask(TimePoint now);
  void answer(Rank to, ByteReader& in, TimePoint now);
  void receive_answer(ByteReader& in, TimePoint now);
  Bytes begin(Note note) const;

  const ObserverList observers_;
  const Rank rank_;
  const int size_;
  const std::uint32_t epoch_;
  bool alone_;
  bool observed_ = false;
  bool touched_ = true;  // the first report tells rank 0 to wait for the final one
  bool reported_ = false;
  bool left_ = false;
  TimePoint next_collect_ = TimePoint::min();
  TimePoint next_ask_ = TimePoint::min();
  TimePoint next_check_ = TimePoint::min();  // rank 0: of wants_observed()
  TimePoint settle_deadline_ = TimePoint::max();
  ClockOffset clock_;
  std::vector<bool> talks_;  // rank 0, by rank: wrote, and will write again
  int talking_ = 0;
  std::deque<OutgoingMessage> outbox_;
};

}  // namespace hvd::engine
