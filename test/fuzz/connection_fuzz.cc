// libFuzzer: what every connection between processes begins with, and the frames that follow, under
// any bytes. Bytes that nobody with the key sent prove nothing, and frames are taken or throw
// PeerLostError.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/base/status.h"
#include "ops/net/handshake.h"
#include "ops/net/tcp_frames.h"

namespace {

using namespace hvd;
using Input = std::span<const std::byte>;

constexpr std::array<std::byte, 16> kKey = {};
constexpr Handshake::Terms kTerms = {.service = HandshakeService::kRunner};

void require(bool holds) {
  if (!holds) std::abort();
}

Handshake end(bool calls) {
  if (calls) return Handshake::caller(kKey, kTerms, 1);
  return Handshake::listener(kKey, kTerms, [](std::int32_t, HandshakeService) { return true; });
}

// As a stream arrives; the first byte of a piece says how long it is.
template <typename Take>
void take_pieces(Input input, Take take) {
  while (!input.empty()) {
    const std::size_t length = std::min(input.size(), 1 + static_cast<std::size_t>(input[0]));
    take(input.first(length));
    input = input.subspan(length);
  }
}

void take_anything(bool calls, Input input) {
  Handshake handshake = end(calls);
  take_pieces(input, [&](Input piece) {
    if (handshake.state() != Handshake::State::kGoing) return;
    require(handshake.take(piece) <= piece.size());
    handshake.take_output();
  });
  require(handshake.state() != Handshake::State::kDone);
}

// Both ends have the key; what one says is changed on its way by the bits of `input`.
void alter(Input input) {
  Handshake caller = end(true);
  Handshake listener = end(false);
  bool altered = false;
  const auto pass = [&](Handshake& from, Handshake& to) {
    Bytes said = from.take_output();
    for (std::size_t i = 0; i < std::min(said.size(), input.size()); ++i) {
      said[i] ^= input[i];
      altered = altered || input[i] != std::byte{0};
    }
    input = input.subspan(std::min(said.size(), input.size()));
    if (to.state() == Handshake::State::kGoing) to.take(said);
  };
  for (int i = 0; i < 2; ++i) {
    pass(caller, listener);
    pass(listener, caller);
  }
  require((listener.state() == Handshake::State::kDone) == !altered);
}

void take_frames(Input input) {
  TcpFrameReader reader;
  std::size_t taken = 0;
  try {
    take_pieces(input, [&](Input piece) {
      reader.take(piece, [&](TcpFrameKind, const Bytes& body) { taken += body.size(); });
    });
  } catch (const PeerLostError&) {
  }
  require(taken <= input.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Input input = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 4) {
    case 0:
      take_anything(true, input);
      break;
    case 1:
      take_anything(false, input);
      break;
    case 2:
      alter(input);
      break;
    default:
      take_frames(input);
  }
  return 0;
}
