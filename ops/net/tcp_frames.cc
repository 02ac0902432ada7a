#include "ops/net/tcp_frames.h"

#include <algorithm>
#include <utility>

namespace hvd::engine {
namespace {

constexpr std::size_t kHeaderBytes = 8;

// Moves bytes to the end of `to` until it has `wanted`; returns those that are left.
std::span<const std::byte> fill(Bytes& to, std::size_t wanted, std::span<const std::byte> from) {
  const std::size_t count = std::min(wanted - to.size(), from.size());
  to.insert(to.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
  return from.subspan(count);
}

}  // namespace

Bytes make_frame(TcpFrameKind kind, std::span<const std::byte> body) {
  if (body.size() > kLongestFrame) {
    throw InternalError("a control message of ", body.size(), " bytes; the longest one is ",
                        kLongestFrame);
  }
  Bytes frame;
  frame.reserve(kHeaderBytes + body.size());
  ByteWriter out(frame);
  out.put(kind);
  out.put(static_cast<std::uint32_t>(body.size()));
  frame.insert(frame.end(), body.begin(), body.end());
  return frame;
}

void TcpFrameReader::take(std::span<const std::byte> bytes, const Taker& taker) {
  while (true) {
    if (header_.size() < kHeaderBytes) {
      bytes = fill(header_, kHeaderBytes, bytes);
      if (header_.size() < kHeaderBytes) return;
      ByteReader in(header_);
      const auto kind = in.get<std::uint32_t>();
      length_ = in.get<std::uint32_t>();
      if (kind < 1 || kind > 4) ByteReader::malformed("unknown kind of frame");
      if (length_ > kLongestFrame) ByteReader::malformed("frame too long");
      kind_ = static_cast<TcpFrameKind>(kind);
    }
    bytes = fill(body_, length_, bytes);
    if (body_.size() < length_) return;
    header_.clear();
    taker(kind_, std::exchange(body_, {}));
  }
}

}  // namespace hvd::engine
