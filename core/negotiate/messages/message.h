#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/bytes.h"
#include "core/base/status.h"

namespace hvd {

// Of an error.
template <typename Io>
void serialize(Io& io, Fields<Io, Status>& status);

}  // namespace hvd

namespace hvd::engine {

// What a control message is. The values are part of the wire format.
enum class MessageKind : std::uint8_t {
  kAnnouncement = 0,    // up the tree
  kDecision = 1,        // down the tree: the next entry of the log
  kAbortReport = 2,     // to rank 0, past the tree: this job must stop
  kAbortBroadcast = 3,  // to any rank, past the tree: stop now
  kConfirm = 4,         // up the tree: this rank has stopped
  kObservation = 5,     // to rank 0 or back, past the tree: between observers, never to a protocol
  kProbe = 6,           // up the tree: do you still run? Down: yes
};

inline constexpr std::uint8_t kMessageVersion = 6;

struct MessageHeader {
  MessageKind kind = MessageKind::kAnnouncement;
  std::uint32_t epoch = 0;
};

// Why a job must stop, with the rank that is gone (-1: none is).
struct AbortNotice {
  Status why;
  std::int32_t lost = -1;
};

// Readers throw PeerLostError on what is malformed, here as below; of a header on another version
// or an unknown kind.
template <typename Io>
void serialize(Io& io, Fields<Io, MessageHeader>& header);
// Whether the message is one between observers. Any bytes.
bool is_observation(std::span<const std::byte> message);

template <typename Io>
void serialize(Io& io, Fields<Io, AbortNotice>& notice);

}  // namespace hvd::engine
