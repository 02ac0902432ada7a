#include "ops/connect/local_socket.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/status.h"
#include "core/system/interruptible_waits.h"
#include "ops/net/tcp_socket.h"

namespace hvd::engine {
namespace {

constexpr int kBacklog = 1024;

struct Address {
  sockaddr_un name{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// Names that begin with a zero byte are in no file system.
Address address_of(const std::string& name) {
  Address address;
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path + 1, name.data(), name.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

UniqueFd make_socket(int flags) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!fd) throw InternalError("socket: ", std::strerror(errno));
  return fd;
}

bool is_another_users(const UniqueFd& fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return true;
  return peer.uid != geteuid() && peer.uid != 0;
}

}  // namespace

UniqueFd listen_locally(const std::string& name) {
  UniqueFd fd = make_socket(SOCK_NONBLOCK);
  const Address at = address_of(name);
  if (bind(fd.get(), at.get(), at.length) != 0 || listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    throw InvalidArgumentError(
        "rank 0 cannot listen at unix:", name, ": ", std::strerror(error),
        error == EADDRINUSE ? "; another program or another rank 0 does, choose another one" : "");
  }
  return fd;
}

UniqueFd accept_locally(const UniqueFd& listener) {
  UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd && is_another_users(fd)) {
    fd.reset();
    errno = EPERM;
  }
  return fd;
}

UniqueFd connect_locally(const std::string& name, std::string& why) {
  UniqueFd fd = make_socket(0);
  const timeval limit{1, 0};  // a listener that was stopped, with a full queue
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const Address to = address_of(name);
  if (connect(fd.get(), to.get(), to.length) != 0) {
    why = std::strerror(errno);
    return {};
  }
  if (is_another_users(fd)) {
    throw PeerLostError("another user's process listens at unix:" + name);
  }
  return fd;
}

bool wait_for(std::span<pollfd> ready, TimePoint deadline) {
  InterruptibleWaits::look();
  const TimePoint soon = std::min(deadline, Clock::now() + std::chrono::seconds(1));
  const int limit = milliseconds_until(InterruptibleWaits::look_before(soon));
  return poll(ready.data(), ready.size(), limit) > 0 || Clock::now() < deadline;
}

}  // namespace hvd::engine
