#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/base/bytes.h"

// What travels over a connection after its handshake (ops/net/handshake.h), both ways.
namespace hvd::engine {

enum class TcpFrameKind : std::uint32_t {
  kMessage = 1,
  kGoodbye = 2,  // the last one of a rank that leaves in order
  kFailure = 3,  // the last one of a rank that fails: why
  kHeartbeat = 4,
};

inline constexpr std::size_t kLongestFrame = std::size_t{1} << 30;  // bytes

Bytes make_frame(TcpFrameKind kind, std::span<const std::byte> body);

// Takes the bytes of a connection as they come and cuts them into frames. Memory grows with what
// arrived, not with what was announced.
class TcpFrameReader {
 public:
  using Taker = std::function<void(TcpFrameKind, Bytes)>;
  // Throws PeerLostError for what is no frame; nothing may be taken afterwards.
  void take(std::span<const std::byte> bytes, const Taker& taker);

 private:
  Bytes header_;
  Bytes body_;
  TcpFrameKind kind_ = TcpFrameKind::kMessage;
  std::size_t length_ = 0;  // of the body, once the header is here
};

}  // namespace hvd::engine
