#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "core/base/bytes.h"
#include "core/base/topology.h"
#include "ops/tcp/tcp_endpoint.h"

// What travels over a connection. Who connects says hello and waits; who listens answers with a
// welcome if it knows the caller's secret and closes the connection if not; the caller confirms, so
// that a connection that one end gave up in between is none. Then frames go both ways.
namespace hvd {

struct TcpHello {
  TcpSecret knock{};
  Rank from = 0;
  Rank to = 0;
};

inline constexpr std::size_t kHelloBytes = 32;
inline constexpr std::size_t kWelcomeBytes = 24;

Bytes encode_hello(const TcpHello& hello);
// Of kHelloBytes; empty when it is of something else, or of another version.
std::optional<TcpHello> decode_hello(std::span<const std::byte> bytes);
Bytes encode_welcome(const TcpSecret& answer);
// Of kWelcomeBytes.
bool is_welcome(std::span<const std::byte> bytes, const TcpSecret& answer);

enum class TcpFrameKind : std::uint32_t {
  kMessage = 1,
  kConfirm = 2,  // the first one of who connected
  kGoodbye = 3,  // the last one of who leaves in order
  kFailure = 4,  // the last one of who fails: why
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

}  // namespace hvd
