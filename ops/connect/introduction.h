#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "ops/connect/agreement.h"
#include "ops/shm/process.h"

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

// build_identity(), and the sizes of what ranks share as this compiler laid it out.
std::string build_and_layout();

// What each rank tells the others when they meet.
struct Introduction {
  std::string build;     // build_and_layout()
  std::string host;      // its name
  std::string identity;  // tells it from others of that name
  ProcessId process;
  ChosenValues chosen;
};

std::string encode(const Introduction& introduction);

// `texts`: what encode() gave on each rank. Throws UnsupportedError, with the same text on every
// rank, unless all come from the same build of this library, of which nothing but the build is read
// then; PeerLostError that names the rank if a text is malformed.
std::vector<Introduction> decode_introductions(std::span<const std::string> texts);

}  // namespace hvd
