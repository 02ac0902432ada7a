#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/topology.h"
#include "core/negotiate/effects.h"
#include "core/observe/observer.h"

namespace hvd {

// What observers of different ranks say to each other: each rank sends what it collected to rank 0
// now and then (at most ten times a second, and at most ten thousand reports a second in all), and
// while the log says "observed" measures its clock against rank 0's. A value machine without clock
// and transport: time and messages go in, messages come out.
class TelemetryChannel {
 public:
  TelemetryChannel(ObserverList observers, const Topology& topology, std::uint32_t epoch);

  // Something happened that observers may want to tell.
  void touch() { touched_ = true; }
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

}  // namespace hvd
