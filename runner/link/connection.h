#pragma once

#include <poll.h>

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "ops/net/handshake.h"
#include "ops/net/tcp_socket.h"
#include "runner/link/wire.h"

namespace hvd::runner {

// What hvdrun and its agents agree on: hvdrun listens, as number 0, and agents call it
// with their numbers.
inline constexpr Handshake::Terms kTerms{HandshakeService::kRunner, 0, 0};

// Of an agent that takes whatever number is left.
inline constexpr int kAnyNumber = INT32_MAX;

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
  void say(const M& message, std::int32_t rank = kNoRank) {
    if (!socket_) return;
    append(unsent_, message, rank);
    send();
  }
  // As much of what was said as the system takes now.
  void send();
  // Bytes of what was said that are still here.
  std::size_t unsent() const { return unsent_.size(); }
  // Takes what came; false when the connection is over.
  bool receive();
  // The next message that came. Throws PeerLostError on a malformed one.
  std::optional<Message> next() { return reader_.next(); }
  void close();
  // Numeric, of either end; "" if they have none.
  std::string own_address() const;
  std::string peer_address() const;

 private:
  TcpDescriptor socket_;
  MessageReader reader_;
  Bytes unsent_;
};

// Waits until `fd` (-1 = nothing) is ready for `events`; false if it is not by `limit`. Throws
// PeerLostError when one of the descriptors `endings` is readable: the agent is to end.
bool wait_until_ready(int fd, short events, TimePoint limit, std::span<const int> endings);

// Takes what `socket` has for `handshake` and answers. False when the connection is over; `why` is
// "" if the other end closed it in order. Once the handshake is done, the connection is in `made`.
bool advance(Handshake& handshake, TcpDescriptor& socket, Connection& made, std::string& why);

// The job's key in a file; with `make`, drawn and written there, for this user alone, where there
// is none. Throws InvalidArgumentError naming --key-file and the file.
std::string read_key_file(const std::string& path, bool make);

struct AgentCall {
  AgentAddress to;
  int number = 0;  // of the agent
  TimePoint give_up;
  Duration link_timeout{};  // after which a connection to a host that is gone breaks
  // Descriptors; when one is readable, the call is not wanted any more.
  std::span<const int> endings;
};

// Connects to hvdrun, the endpoints that promise most first, and proves both ends to each other;
// tries again until `give_up`. Throws PeerLostError with every endpoint and what it met.
Connection call_launcher(const AgentCall& call);

}  // namespace hvd::runner
