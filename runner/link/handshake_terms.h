#pragma once

#include <span>

#include "ops/net/handshake.h"
#include "runner/link/wire.h"

namespace hvd::runner {

// What hvdrun and its agents agree on: hvdrun listens, as number 0, and ranks call it.
inline constexpr Handshake::Terms kTerms{HandshakeService::kRunner, 0, 0};

inline std::span<const std::byte> key_bytes(const AgentAddress& address) {
  return std::as_bytes(std::span(address.key));
}

}  // namespace hvd::runner
