#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/negotiate/rank_protocol.h"

namespace hvd::engine::test {

// What happens to one rank, as bytes: who it is, then one record an event. The fuzzer makes up such
// bytes; the corpus holds what ranks of real jobs went through.
enum class EventKind : std::uint8_t {
  kSubmit,
  kReceive,
  kTick,
  kFinish,
  kJoin,
  kRankStatus,
  kLeave
};
inline constexpr int kEventKindCount = 7;

struct SessionEvent {
  EventKind kind = EventKind::kTick;
  std::uint8_t choice = 0;  // kSubmit: which request; kReceive: from; kJoin: set
  Bytes message = {};       // kReceive only
};

// Its first byte says which of four ranks is meant.
Bytes begin_session(Rank rank);
void append(Bytes& session, const SessionEvent& event);
// The next event; empty at the end of the session (or in the middle of a record).
std::optional<SessionEvent> next_event(std::span<const std::byte>& session);

// One rank that takes events and keeps what it was told to run.
class SessionRank {
 public:
  explicit SessionRank(Rank rank);

  // Throws what the protocol throws.
  void perform(const SessionEvent& event);
  // Takes the effects and gives the messages. Aborts the process when what comes out makes no
  // sense: that is a finding.
  std::vector<OutgoingMessage> outcome();

 private:
  RankProtocol protocol_;
  TimePoint now_{};
  Ticket tickets_ = 0;
  std::vector<std::uint64_t> unfinished_;
  bool stopped_ = false;
  bool look_ = false;
};

}  // namespace hvd::engine::test
