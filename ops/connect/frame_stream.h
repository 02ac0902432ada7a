#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "ops/net/handshake.h"
#include "ops/net/tcp_socket.h"

namespace hvd {

enum class FrameType : std::uint8_t { kHello = 0, kWelcome, kText, kAnswer };

struct Frame {
  FrameType type = FrameType::kHello;
  Bytes payload;
};

// A handshake and then frames over a connected socket, which becomes non-blocking. Whoever is at
// the other end may send anything: what is no frame throws PeerLostError.
class FrameStream {
 public:
  // `most`: bytes of payload that the other end may send at once; a few KiB more are kept at most.
  FrameStream(TcpDescriptor fd, Handshake handshake, std::size_t most);

  // Goes on with the handshake as far as it can now; true once it is done, and only then frames may
  // be sent and received. handshake() says whether and why it has failed.
  bool shake_hands();
  const Handshake& handshake() const noexcept { return handshake_; }

  void send(FrameType type, std::span<const std::byte> payload);
  // Whether all that was sent has left.
  bool flush();
  // The next frame, if a whole one is here.
  std::optional<Frame> receive();
  // The other end is gone; frames that came before were received.
  bool ended() const noexcept { return ended_; }
  void allow(std::size_t most) noexcept { most_ = most; }
  // What poll() should wait for.
  pollfd wanted() const noexcept;

 private:
  void read_available();

  TcpDescriptor fd_;
  Handshake handshake_;
  std::size_t most_;
  Bytes unsent_;
  Bytes received_;
  bool ended_ = false;
};

// poll() until one is ready or the deadline; false at the deadline.
bool wait_for(std::span<pollfd> ready, TimePoint deadline);

}  // namespace hvd
