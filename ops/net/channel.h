#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/bytes.h"
#include "ops/net/handshake.h"
#include "ops/net/tcp_socket.h"

namespace hvd::engine {

inline constexpr std::int32_t kNoRank = -1;

// What is sent over a Channel: bytes of a type that its users define, about a rank or about none.
struct Frame {
  std::uint8_t type = 0;
  std::int32_t rank = kNoRank;
  Bytes payload;
};

// A frame as it travels: length, type, rank, payload.
void append_frame(Bytes& to, std::uint8_t type, std::int32_t rank,
                  std::span<const std::byte> payload);

// A connected socket, a handshake over it, and then frames. No call waits. Whoever is at the other
// end may send anything: what is no frame throws PeerLostError. Not thread-safe.
class Channel {
 public:
  struct Limits {
    unsigned types = 0;    // of frames: 0 .. types-1
    std::size_t most = 0;  // bytes of payload that the other end may send at once
  };

  // Closed.
  Channel() = default;
  // The socket becomes non-blocking. It keeps no more of what comes than one frame takes, and until
  // the handshake is done no more than that. Without one both ends know each other already.
  Channel(TcpDescriptor socket, std::optional<Handshake> handshake, const Limits& limits);
  explicit operator bool() const { return static_cast<bool>(socket_); }

  // Goes on with the handshake as far as it can now; true once it is done, and only then frames may
  // be sent and received. handshake() says whether and why it has failed.
  bool shake_hands();
  const Handshake& handshake() const noexcept { return *handshake_; }
  void allow(std::size_t most) noexcept { limits_.most = most; }

  // Sends a frame, as far as the socket takes it; flush() sends the rest.
  void send(std::uint8_t type, std::int32_t rank, std::span<const std::byte> payload);
  // True once all that was sent has left, or will not.
  bool flush();
  std::size_t unsent() const noexcept { return unsent_.size() - sent_; }  // bytes still here
  // Takes what came; false once the other end is gone. Frames that came before are still here.
  bool read();
  // The next frame, if a whole one is here.
  std::optional<Frame> next();
  bool ended() const noexcept { return ended_; }
  // Why it ended; "" if the other end closed it in order.
  const std::string& end() const noexcept { return end_; }

  std::size_t received() const noexcept { return received_.size() - taken_; }  // not taken yet
  int descriptor() const noexcept { return socket_.get(); }
  // The connection goes on without this, which is closed. Requires: the handshake is done, and
  // unsent() is 0.
  TcpDescriptor release() noexcept { return std::move(socket_); }
  // What poll() should wait for; fd -1 once there is nothing.
  pollfd wanted() const noexcept;
  void close();
  // The host of either end; "" if they have none.
  std::string own_host() const { return own_address(socket_.get()).host; }
  std::string peer_host() const { return peer_address(socket_.get()).host; }

 private:
  TcpDescriptor socket_;
  std::optional<Handshake> handshake_;
  Limits limits_;
  Bytes unsent_;
  std::size_t sent_ = 0;  // of unsent_
  Bytes received_;
  std::size_t taken_ = 0;  // of received_
  bool ended_ = false;
  std::string end_;
};

}  // namespace hvd::engine
