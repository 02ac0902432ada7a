#pragma once

#include <cstdint>
#include <string>

#include "core/base/bytes.h"

namespace hvd {

// What a rank says to rank 0 first. A rank that is not of this job, by key, number or size, gets an
// answer that says why, instead of a welcome.
struct RendezvousHello {
  std::string key;  // empty = the job has none
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::int64_t process = 0;  // for messages to people
};

inline constexpr std::size_t kLongestHello = 4096;  // bytes

Bytes encode(const RendezvousHello& hello);
// Throws PeerLostError.
RendezvousHello decode_rendezvous_hello(std::span<const std::byte> bytes);

}  // namespace hvd
