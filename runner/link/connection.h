#pragma once

#include <poll.h>

#include <optional>
#include <span>

#include "core/base/bytes.h"
#include "ops/net/tcp_descriptor.h"
#include "runner/link/wire.h"

namespace hvd::runner {

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

}  // namespace hvd::runner
