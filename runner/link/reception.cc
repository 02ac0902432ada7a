#include "runner/link/reception.h"

#include <algorithm>
#include <cerrno>

#include "core/base/status.h"
#include "core/system/host.h"
#include "ops/net/tcp_endpoint.h"

namespace hvd::runner {
namespace {

constexpr Duration kListenPause = std::chrono::milliseconds(100);  // without descriptors

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::vector<TcpListener> listen_on_each(std::span<const std::string> addresses) {
  std::vector<TcpListener> listeners;
  std::string why = "no address";
  for (const std::string& address : addresses) {
    try {
      listeners.push_back(listen_on(address));
    } catch (const UnsupportedError& error) {
      why = error.what();
    }
  }
  if (listeners.empty()) throw InternalError("cannot listen for the ranks: " + why);
  return listeners;
}

}  // namespace

std::vector<std::string> listening_addresses(bool remote, const std::string& interfaces) {
  if (!remote) return {"127.0.0.1"};
  const std::vector<LocalAddress> local = local_addresses();
  std::vector<std::string> addresses = addresses_of(interfaces, local);
  // Another machine that calls its own loopback finds somebody else there.
  if (!std::all_of(addresses.begin(), addresses.end(), is_loopback)) {
    std::erase_if(addresses, is_loopback);
  }
  return addresses;
}

Reception::Reception(std::span<const std::string> addresses, int np, Duration link_timeout,
                     Expects expects)
    : listeners_(listen_on_each(addresses)),
      address_{random_hex(64), {}},
      most_(kMaxUnauthenticatedPeers + static_cast<std::size_t>(np)),
      link_timeout_(link_timeout),
      expects_(std::move(expects)) {
  for (const TcpListener& each : listeners_) address_.endpoints.push_back(each.at);
}

void Reception::add_polls(std::vector<pollfd>& polls) const {
  const bool open = listen_again_ == TimePoint{};
  for (const TcpListener& listening : listeners_) {
    polls.push_back({open ? listening.socket.get() : -1, POLLIN, 0});
  }
  for (const UnauthenticatedPeer& stranger : strangers_)
    polls.push_back({stranger.socket.get(), POLLIN, 0});
}

TimePoint Reception::next_deadline() const {
  TimePoint next = listen_again_ == TimePoint{} ? TimePoint::max() : listen_again_;
  if (!strangers_.empty()) next = std::min(next, strangers_.front().deadline);
  return next;
}

std::vector<Reception::Agent> Reception::serve(std::span<const pollfd> polls, TimePoint now) {
  std::vector<Agent> agents;
  const std::size_t listening = listeners_.size();
  std::size_t at = listening;
  std::erase_if(strangers_, [&](UnauthenticatedPeer& stranger) {
    const bool ready = polls[at++].revents != 0;
    return (ready && !serve(stranger, agents)) || now >= stranger.deadline;
  });
  if (now >= listen_again_) listen_again_ = {};
  for (std::size_t i = 0; i < listening; ++i) {
    if (polls[i].revents != 0) accept_all(polls[i].fd, now);
  }
  return agents;
}

// False when it is no stranger any more: an agent, or gone.
bool Reception::serve(UnauthenticatedPeer& stranger, std::vector<Agent>& agents) {
  Connection made;
  std::string why;
  if (!advance(stranger.handshake, stranger.socket, made, why)) return false;
  if (made) agents.push_back({stranger.handshake.from(), std::move(made)});
  return stranger.handshake.state() == Handshake::State::kGoing;
}

void Reception::accept_all(int listening, TimePoint now) {
  while (true) {
    TcpDescriptor socket = accept_from(listening, link_timeout_);
    if (!socket) {
      if (!is_out_of_descriptors(errno)) return;
      // poll() would return at once again and again; and the oldest stranger has what we need.
      if (!strangers_.empty()) strangers_.pop_front();
      listen_again_ = now + kListenPause;
      return;
    }
    if (strangers_.size() >= most_) strangers_.pop_front();
    strangers_.push_back({std::move(socket),
                          Handshake::listener(key_bytes(address_), kTerms, expects_),
                          now + kUnauthenticatedLimit});
  }
}

}  // namespace hvd::runner
