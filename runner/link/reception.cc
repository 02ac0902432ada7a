#include "runner/link/reception.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/system/host.h"
#include "ops/net/tcp_socket.h"
#include "runner/link/connection.h"

namespace hvd::runner {
namespace {

constexpr Duration kListenPause = std::chrono::milliseconds(100);  // without descriptors

}  // namespace

Reception::Reception(Listener listener, int np, Duration link_timeout, Expects expects)
    : listener_(std::move(listener)),
      address_{random_hex(64), listener_.endpoints()},
      most_(kMaxUnauthenticatedPeers + static_cast<std::size_t>(np)),
      link_timeout_(link_timeout),
      expects_(std::move(expects)) {}

void Reception::add_polls(std::vector<pollfd>& polls) const {
  const bool open = listen_again_ == TimePoint{};
  for (const TcpListener& listening : listener_.sockets()) {
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
  const std::size_t listening = listener_.sockets().size();
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
  std::array<std::byte, 1024> buffer;
  std::string why;
  const auto got = read_some(stranger.socket.get(), buffer, why);
  if (!got) return false;
  const auto came = std::span(buffer).first(*got);
  const std::size_t used = stranger.handshake.take(came);
  const Bytes answer = stranger.handshake.take_output();
  // A few bytes into an empty socket.
  const auto sent = write_some(stranger.socket.get(), answer, why);
  if (!sent || *sent != answer.size()) return false;
  if (stranger.handshake.state() == Handshake::State::kGoing) return true;
  if (stranger.handshake.state() == Handshake::State::kDone) {
    agents.push_back(
        {stranger.handshake.from(), Connection(std::move(stranger.socket), came.subspan(used))});
  }
  return false;
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
