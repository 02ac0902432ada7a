#pragma once

#include <span>

#include "core/base/clock.h"
#include "runner/link/connection.h"
#include "runner/link/wire.h"

namespace hvd::runner {

struct AgentCall {
  AgentAddress to;
  int rank = 0;
  TimePoint give_up;
  Duration link_timeout{};  // after which a connection to a host that is gone breaks
  std::span<const int>
      endings;  // descriptors; when one is readable, the call is not wanted any more
};

// Connects to hvdrun, the endpoints that promise most first, and proves both ends to each other;
// tries again until `give_up`. Throws PeerLostError with every endpoint and what it met.
Connection call_launcher(const AgentCall& call);

}  // namespace hvd::runner
