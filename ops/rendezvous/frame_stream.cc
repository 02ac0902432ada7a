#include "ops/rendezvous/frame_stream.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>

#include "core/base/interruptible_waits.h"

namespace hvd {
namespace {

// Before each payload: what no other protocol begins with, the version, the type, the length.
constexpr std::uint32_t kMagic = 0x31445648;  // "HVD1"
constexpr unsigned kFrameTypes = 4;
constexpr std::size_t kHeader = sizeof(std::uint32_t) + sizeof(FrameType) + sizeof(std::uint32_t);
constexpr std::size_t kQuoted = 24;  // characters of what a stranger said

[[noreturn]] void refuse(std::span<const std::byte> bytes) {
  std::string quoted;
  for (const std::byte byte : bytes.first(std::min(bytes.size(), kQuoted))) {
    const auto c = static_cast<unsigned char>(byte);
    quoted += std::isprint(c) != 0 ? static_cast<char>(c) : '.';
  }
  throw PeerLostError("what came is not from a rank of this horovod_cpp: '" + quoted + "'");
}

}  // namespace

FrameStream::FrameStream(UniqueFd fd, std::size_t most) : fd_(std::move(fd)), most_(most) {
  fcntl(fd_.get(), F_SETFL, fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
}

void FrameStream::send(FrameType type, std::span<const std::byte> payload) {
  ByteWriter writer(unsent_);
  writer.put(kMagic);
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
  while (!ended_ && received_.size() < kHeader + most_) {
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
  // Every byte counts: a stranger may say less than a header and wait.
  const std::size_t seen = std::min(received_.size(), sizeof kMagic);
  if (std::memcmp(received_.data(), &kMagic, seen) != 0) refuse(received_);
  if (received_.size() < kHeader) return std::nullopt;
  ByteReader reader(received_);
  reader.get<std::uint32_t>();
  const auto type = reader.get<std::uint8_t>();
  const auto length = reader.get<std::uint32_t>();
  if (type >= kFrameTypes || length > most_) refuse(received_);
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
