#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/unique_fd.h"

namespace hvd {

enum class FrameType : std::uint8_t { kHello = 0, kWelcome, kText, kAnswer };

struct Frame {
  FrameType type = FrameType::kHello;
  Bytes payload;
};

// Frames over a connected socket, which becomes non-blocking. Whoever is at the other end may send
// anything: what is no frame throws PeerLostError that quotes it.
class FrameStream {
 public:
  // `most`: bytes of payload that the other end may send at once.
  FrameStream(UniqueFd fd, std::size_t most);

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

  UniqueFd fd_;
  std::size_t most_;
  Bytes unsent_;
  Bytes received_;
  bool ended_ = false;
};

// poll() until one is ready or the deadline; false at the deadline.
bool wait_for(std::span<pollfd> ready, TimePoint deadline);

}  // namespace hvd
