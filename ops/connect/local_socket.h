#pragma once

#include <poll.h>
#include <sys/un.h>

#include <cstddef>
#include <span>
#include <string>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"

// Unix stream sockets with a name in the network namespace, which is in no file system and vanishes
// with the listener. Processes of other users, except root, are refused at both ends.
namespace hvd::engine {

inline constexpr std::size_t kLongestSocketName = sizeof(sockaddr_un::sun_path) - 1;

// Throws InvalidArgumentError if another process listens there.
UniqueFd listen_locally(const std::string& name);
// The next connection; empty with errno set if there is none, or another user made it (EPERM).
UniqueFd accept_locally(const UniqueFd& listener);
// Empty, and `why` says why, when nothing listens there (yet). Throws PeerLostError if another user
// does.
UniqueFd connect_locally(const std::string& name, std::string& why);

// poll() of any sockets until one is ready or the deadline; false at the deadline. Throws what an
// InterruptibleWaits does.
bool wait_for(std::span<pollfd> ready, TimePoint deadline);

}  // namespace hvd::engine
