#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "ops/net/handshake.h"
#include "ops/net/tcp_socket.h"
#include "runner/link/wire.h"

namespace hvd::runner {

// What poll() takes to wait until `time`, a day at most; -1, for ever, for max().
inline int milliseconds_until(TimePoint time) {
  if (time == TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 86'400'000));
}

// What hvdrun and its agents agree on: hvdrun listens, as number 0, and ranks call it.
inline constexpr Handshake::Terms kTerms{HandshakeService::kRunner, 0, 0};

inline std::span<const std::byte> key_bytes(const AgentAddress& address) {
  return std::as_bytes(std::span(address.key));
}

// One end of a connection between hvdrun and an agent after their handshake: messages in, messages
// out, never a wait. Its limits against hosts that are gone are the socket's.
class Connection {
 public:
  Connection() = default;
  // `first`: what came with the end of the handshake.
  Connection(TcpDescriptor socket, std::span<const std::byte> first) : socket_(std::move(socket)) {
    reader_.feed(first);
  }
  explicit operator bool() const { return static_cast<bool>(socket_); }

  // What poll() should wait for; fd -1 once it is closed.
  pollfd wanted() const;
  template <typename M>
  void say(const M& message) {
    if (!socket_) return;
    append(unsent_, message);
    send();
  }
  // As much of what was said as the system takes now.
  void send();
  bool all_sent() const { return unsent_.empty(); }
  // Takes what came; false when the connection is over.
  bool receive();
  // The next message that came. Throws PeerLostError on what is none.
  std::optional<Message> next() { return reader_.next(); }
  void close();

 private:
  TcpDescriptor socket_;
  MessageReader reader_;
  Bytes unsent_;
};

// The addresses of this machine on which hvdrun awaits its agents. `remote`: those that other
// machines may reach, of the interfaces that `interfaces` lists ("eth0,ib0") or of all if it is
// empty; else loopback. Throws InvalidArgumentError naming an interface that there is not.
std::vector<std::string> listening_addresses(bool remote, const std::string& interfaces);

// A TCP port on each of some addresses and on no other; not blocking.
class Listener {
 public:
  // Those of `addresses` that the system lets nobody listen on are left out. Throws InternalError
  // if they are all.
  explicit Listener(std::span<const std::string> addresses);

  // Each has a descriptor; readable when somebody connects.
  std::span<const TcpListener> sockets() const { return sockets_; }
  std::vector<TcpAddress> endpoints() const;

 private:
  std::vector<TcpListener> sockets_;
};

}  // namespace hvd::runner
