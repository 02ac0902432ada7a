#pragma once

#include <cstdint>
#include <span>

#include "core/base/bytes.h"

namespace hvd {

// What a rank says to rank 0 first, once the handshake has told its number. A rank whose number or
// size cannot be gets an answer that says why, instead of a welcome.
struct RendezvousHello {
  std::int32_t size = 0;
  std::int64_t process = 0;  // for messages to people
};

inline constexpr std::size_t kRendezvousHelloBytes = 12;

Bytes encode(const RendezvousHello& hello);
// Throws PeerLostError.
RendezvousHello decode_rendezvous_hello(std::span<const std::byte> bytes);

}  // namespace hvd
