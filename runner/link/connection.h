#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "ops/net/channel.h"
#include "runner/link/wire.h"

namespace hvd::runner {

// What hvdrun and its agents agree on: hvdrun listens, as number 0, and agents call it
// with their numbers.
inline constexpr engine::Handshake::Terms kTerms{engine::HandshakeService::kRunner, 0, 0};

// Of an agent that takes whatever number is left.
inline constexpr int kAnyNumber = INT32_MAX;

inline std::span<const std::byte> key_bytes(const AgentAddress& address) {
  return std::as_bytes(std::span(address.key));
}

// One end of a connection between hvdrun and an agent or a relay's client. Its limits against hosts
// that are gone are the socket's.
class Connection : public engine::Channel {
 public:
  Connection() = default;
  explicit Connection(engine::TcpDescriptor socket, std::optional<engine::Handshake> handshake = {})
      : engine::Channel(std::move(socket), std::move(handshake), {kMessageTypes, kLargestMessage}) {
  }

  template <typename M>
  void say(const M& message, std::int32_t rank = engine::kNoRank) {
    send(static_cast<std::uint8_t>(M::kType), rank, encode_fields(message));
  }
  // The next message that came. Throws PeerLostError on a malformed one.
  std::optional<Message> next();
};

// Waits until `fd` (-1 = nothing) is ready for `events`; false if it is not by `limit`. Throws
// PeerLostError when one of the descriptors `endings` is readable: the agent is to end.
bool wait_until_ready(int fd, short events, TimePoint limit, std::span<const int> endings);

// The job's key in a file; with `make`, drawn and written there, for this user alone, where there
// is none. Throws InvalidArgumentError naming --key-file and the file.
std::string read_key_file(const std::string& path, bool make);

struct AgentCall {
  AgentAddress to;
  int number = 0;  // of the agent
  TimePoint give_up;
  Duration link_timeout{};  // after which a connection to a host that is gone breaks
  // Descriptors; when one is readable, the call is not wanted any more.
  std::span<const int> endings;
};

// "agent 3 on node1", for errors.
std::string described(const AgentCall& call);

// Connects to hvdrun, the endpoints that promise most first, and proves both ends to each other;
// tries again until `give_up`. Throws PeerLostError with every endpoint and what it met.
Connection call_launcher(const AgentCall& call);

}  // namespace hvd::runner
