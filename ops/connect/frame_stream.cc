#include "ops/connect/frame_stream.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/system/interruptible_waits.h"

namespace hvd {
namespace {

// Before each payload: the type, the length.
constexpr unsigned kFrameTypes = 4;
constexpr std::size_t kHeader = sizeof(FrameType) + sizeof(std::uint32_t);
// Read at once, so that whoever never stops sending delays no time limit.
constexpr std::size_t kMostAtOnce = 1 << 20;

}  // namespace

FrameStream::FrameStream(TcpDescriptor fd, Handshake handshake, std::size_t most)
    : fd_(std::move(fd)), handshake_(std::move(handshake)), most_(most) {
  fcntl(fd_.get(), F_SETFL, fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
}

bool FrameStream::shake_hands() {
  if (handshake_.state() == Handshake::State::kGoing) {
    read_available();
    const std::size_t used = handshake_.take(received_);
    received_.erase(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(used));
    const Bytes output = handshake_.take_output();
    unsent_.insert(unsent_.end(), output.begin(), output.end());
    flush();
  }
  return handshake_.state() == Handshake::State::kDone;
}

void FrameStream::send(FrameType type, std::span<const std::byte> payload) {
  ByteWriter writer(unsent_);
  writer.put(type);
  writer.put(static_cast<std::uint32_t>(payload.size()));
  unsent_.insert(unsent_.end(), payload.begin(), payload.end());
  flush();
}

bool FrameStream::flush() {
  while (!unsent_.empty() && !ended_) {
    const ssize_t sent = ::send(fd_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return false;
    if (sent < 0) break;  // receive() will find the end
    unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
  }
  return true;
}

void FrameStream::read_available() {
  std::array<std::byte, 1 << 14> buffer;
  const std::size_t limit = std::min(kHeader + most_, received_.size() + kMostAtOnce);
  while (!ended_ && received_.size() < limit) {
    const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    ended_ = got <= 0;
    if (got > 0) received_.insert(received_.end(), buffer.begin(), buffer.begin() + got);
  }
}

std::optional<Frame> FrameStream::receive() {
  read_available();
  if (received_.empty()) return std::nullopt;
  if (received_.size() < kHeader) return std::nullopt;
  ByteReader reader(received_);
  const auto type = reader.get<std::uint8_t>();
  const auto length = reader.get<std::uint32_t>();
  if (type >= kFrameTypes || length > most_) ByteReader::malformed("no frame of a rendezvous");
  if (reader.remaining() < length) return std::nullopt;
  const auto first = received_.begin() + kHeader;
  Frame frame{static_cast<FrameType>(type), Bytes(first, first + length)};
  received_.erase(received_.begin(), first + length);
  return frame;
}

pollfd FrameStream::wanted() const noexcept {
  return {ended_ ? -1 : fd_.get(), static_cast<short>(POLLIN | (unsent_.empty() ? 0 : POLLOUT)), 0};
}

bool wait_for(std::span<pollfd> ready, TimePoint deadline) {
  InterruptibleWaits::look();
  const TimePoint until = InterruptibleWaits::look_before(deadline);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  const auto limit = std::clamp<std::int64_t>(left, 0, 1000);
  return poll(ready.data(), ready.size(), static_cast<int>(limit)) > 0 || Clock::now() < deadline;
}

}  // namespace hvd
