#include "runner/link/reception.h"

#include <algorithm>
#include <cerrno>

#include "core/base/status.h"
#include "core/system/host.h"
#include "ops/net/tcp_socket.h"

namespace hvd::runner {
namespace {

constexpr Duration kListenPause = std::chrono::milliseconds(100);  // without descriptors

}  // namespace

std::vector<std::string> listening_addresses(bool remote, const std::string& interfaces) {
  if (!remote) return {"127.0.0.1"};
  const std::vector<engine::LocalAddress> local = engine::local_addresses();
  std::vector<std::string> addresses = engine::addresses_of(interfaces, local);
  // Another machine that calls its own loopback finds another program there.
  if (!std::all_of(addresses.begin(), addresses.end(), engine::is_loopback)) {
    std::erase_if(addresses, engine::is_loopback);
  }
  return addresses;
}

Reception::Reception(std::span<const std::string> addresses, PortRange ports, std::string key,
                     std::size_t agents, Duration link_timeout, Expects expects)
    : listeners_(engine::listen_on_each(addresses, ports)),
      address_{std::move(key), {}},
      most_(kMaxUnauthenticatedPeers + agents),
      link_timeout_(link_timeout),
      expects_(std::move(expects)) {
  for (const engine::TcpListener& each : listeners_) address_.endpoints.push_back(each.at);
}

void Reception::add_polls(std::vector<pollfd>& polls) const {
  const bool open = listen_again_ == TimePoint{};
  for (const engine::TcpListener& listening : listeners_) {
    polls.push_back({open ? listening.socket.get() : -1, POLLIN, 0});
  }
  for (const UnauthenticatedPeer& peer : unauthenticated_) {
    polls.push_back(peer.connection.wanted());
  }
}

TimePoint Reception::next_deadline() const {
  TimePoint next = listen_again_ == TimePoint{} ? TimePoint::max() : listen_again_;
  if (!unauthenticated_.empty()) next = std::min(next, unauthenticated_.front().deadline);
  return next;
}

std::vector<Reception::Agent> Reception::serve(std::span<const pollfd> polls, TimePoint now) {
  std::vector<Agent> agents;
  const std::size_t listening = listeners_.size();
  std::size_t at = listening;
  std::erase_if(unauthenticated_, [&](UnauthenticatedPeer& peer) {
    const bool ready = polls[at++].revents != 0;
    return (ready && !serve(peer, agents)) || now >= peer.deadline;
  });
  if (now >= listen_again_) listen_again_ = {};
  for (std::size_t i = 0; i < listening; ++i) {
    if (polls[i].revents != 0) accept_all(polls[i].fd, now);
  }
  return agents;
}

// False once it is authenticated, or gone.
bool Reception::serve(UnauthenticatedPeer& peer, std::vector<Agent>& agents) {
  Connection& connection = peer.connection;
  if (connection.shake_hands()) {
    agents.push_back({connection.handshake().from(), std::move(connection)});
    return false;
  }
  return connection.handshake().state() == engine::Handshake::State::kGoing && !connection.ended();
}

void Reception::accept_all(int listening, TimePoint now) {
  while (true) {
    engine::TcpDescriptor socket = engine::accept_from(listening, link_timeout_);
    if (!socket) {
      if (!engine::is_out_of_descriptors(errno)) return;
      // poll() would return at once again and again; and the oldest peer has what we need.
      if (!unauthenticated_.empty()) unauthenticated_.pop_front();
      listen_again_ = now + kListenPause;
      return;
    }
    if (unauthenticated_.size() >= most_) unauthenticated_.pop_front();
    const auto admits = [this](std::int32_t from, engine::HandshakeService) {
      return expects_(from);
    };
    unauthenticated_.push_back(
        {Connection(std::move(socket),
                    engine::Handshake::listener(key_bytes(address_), kTerms, admits)),
         now + kUnauthenticatedLimit});
  }
}

}  // namespace hvd::runner
