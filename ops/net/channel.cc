#include "ops/net/channel.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <utility>

namespace hvd::engine {
namespace {

constexpr std::size_t kHeader =
    sizeof(std::uint32_t) + sizeof(Frame::type) + sizeof(Frame::rank);  // the length comes first
// Read at once, so that whoever never stops sending delays no time limit.
constexpr std::size_t kMostAtOnce = 1 << 20;

}  // namespace

void append_frame(Bytes& to, std::uint8_t type, std::int32_t rank,
                  std::span<const std::byte> payload) {
  ByteWriter writer(to);
  writer.put(static_cast<std::uint32_t>(payload.size()));
  writer.put(type);
  writer.put(rank);
  to.insert(to.end(), payload.begin(), payload.end());
}

Channel::Channel(TcpDescriptor socket, std::optional<Handshake> handshake, const Limits& limits)
    : socket_(std::move(socket)), handshake_(std::move(handshake)), limits_(limits) {
  fcntl(socket_.get(), F_SETFL, fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

bool Channel::shake_hands() {
  if (handshake_->state() == Handshake::State::kGoing) {
    read();
    taken_ += handshake_->take(std::span(received_).subspan(taken_));
    const Bytes output = handshake_->take_output();
    unsent_.insert(unsent_.end(), output.begin(), output.end());
    flush();
  }
  return handshake_->state() == Handshake::State::kDone;
}

void Channel::send(std::uint8_t type, std::int32_t rank, std::span<const std::byte> payload) {
  if (!socket_) return;
  append_frame(unsent_, type, rank, payload);
  flush();
}

bool Channel::flush() {
  std::string why;  // read() finds the end
  bool over = !socket_ || ended_;
  while (!over && unsent() > 0) {
    const auto count = write_some(socket_.get(), std::span(unsent_).subspan(sent_), why);
    over = !count;
    if (over || *count == 0) break;
    sent_ += *count;
  }
  if (sent_ > unsent_.size() / 2) {  // bytes move once on average, however slowly they leave
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(sent_));
    sent_ = 0;
  }
  return over || unsent() == 0;
}

bool Channel::read() {
  received_.erase(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  std::array<std::byte, 1 << 16> buffer;
  const bool begins = handshake_ && handshake_->state() == Handshake::State::kGoing;
  const std::size_t limit =
      begins ? handshake_->missing() : std::min(kHeader + limits_.most, received() + kMostAtOnce);
  while (socket_ && !ended_ && received() < limit) {
    const std::size_t most = std::min(limit - received(), buffer.size());
    const auto got = read_some(socket_.get(), std::span(buffer).first(most), end_);
    ended_ = !got;
    if (ended_) break;
    received_.insert(received_.end(), buffer.begin(),
                     buffer.begin() + static_cast<std::ptrdiff_t>(*got));
    if (*got < most) break;  // the socket has no more: the next look would find nothing
  }
  return socket_ && !ended_;
}

std::optional<Frame> Channel::next() {
  if (received() < kHeader) return std::nullopt;
  const auto rest = std::span<const std::byte>(received_).subspan(taken_);
  ByteReader reader(rest);
  const auto length = reader.get<std::uint32_t>();
  Frame frame;
  frame.type = reader.get<std::uint8_t>();
  frame.rank = reader.get<std::int32_t>();
  if (frame.type >= limits_.types) ByteReader::malformed("unknown type of frame");
  if (length > limits_.most) ByteReader::malformed("frame too long");
  if (reader.remaining() < length) return std::nullopt;
  const auto payload = rest.subspan(kHeader, length);
  frame.payload.assign(payload.begin(), payload.end());
  taken_ += kHeader + length;
  return frame;
}

pollfd Channel::wanted() const noexcept {
  return {ended_ ? -1 : socket_.get(), static_cast<short>(POLLIN | (unsent() == 0 ? 0 : POLLOUT)),
          0};
}

void Channel::close() {
  socket_.reset();
  unsent_.clear();
  sent_ = 0;
}

}  // namespace hvd::engine
