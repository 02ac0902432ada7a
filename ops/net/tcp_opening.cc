// How the connections of a TcpNetwork begin, what is sent over them, and how they end in order.

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "ops/net/tcp_network.h"

namespace hvd::engine {
namespace {

constexpr Duration kConnectLimit = std::chrono::seconds(2);          // of one address
constexpr Duration kGreetLimit = std::chrono::seconds(5);            // from there to the welcome
constexpr Duration kRetryInterval = std::chrono::milliseconds(100);  // before all are tried again

}  // namespace

std::string TcpNetwork::obstacle(Rank rank) const {
  auto found = opening_.find({rank, HandshakeService::kControl});
  if (found == opening_.end()) found = opening_.find({rank, HandshakeService::kData});
  if (found == opening_.end()) {
    return placement_.described(rank) + " has not connected to host " +
           placement_.host_name(placement_.rank);
  }
  const TcpEndpoint& there = endpoints_[static_cast<std::size_t>(rank)];
  std::string addresses;
  for (const TcpAddress& each : there.addresses) {
    addresses += (addresses.empty() ? "" : ", ") + to_string(each);
  }
  const std::string& last = found->second.obstacle;
  return placement_.described(rank) + " cannot be reached from host " +
         placement_.host_name(placement_.rank) + " at " +
         (addresses.empty() ? "any address" : addresses) +
         (last.empty() ? "" : " (last attempt: " + last + ")") +
         ": check the network and the firewalls between the hosts, choose an interface with "
         "hvdrun --network-interfaces (HOROVOD_GLOO_IFACE), open ports and name them in "
         "HVD_PORT_RANGE, name an address that others can reach in HVD_ADVERTISE_ADDRESS, or, "
         "under mpirun, let MPI carry control messages with HVD_CONTROL_PLANE=mpi";
}

void TcpNetwork::open(const Target& target, TimePoint give_up) {
  const bool is_data = target.service == HandshakeService::kData;
  Peer& other = peer(target.rank);
  if (other.lost || (!is_data && (other.left || other.sending != 0))) return;
  if (other.left) return data_ended(target.rank, "has left");
  const auto [entry, is_new] = opening_.try_emplace(target);
  Opening& opening = entry->second;
  opening.give_up = is_new ? give_up : std::max(opening.give_up, give_up);
  if (!is_new) return;
  const TcpEndpoint& there = endpoints_[static_cast<std::size_t>(target.rank)];
  if (other.addresses.empty()) other.addresses = in_order_of_promise(there.addresses, local_);
  attempt(target);
}

void TcpNetwork::attempt(const Target& target) {
  const std::vector<TcpAddress>& addresses = peer(target.rank).addresses;
  Opening& opening = opening_.at(target);
  opening.retry_at = TimePoint::max();
  if (addresses.empty()) return;  // until give_up
  const TcpAddress& address = addresses[opening.next_address % addresses.size()];
  TcpDescriptor socket = connect_to(address, link_timeout_);
  if (!socket) return retry(target, std::strerror(errno));
  const Handshake::Terms terms{target.service, kEpoch, target.rank};
  add(std::move(socket), Handshake::caller(key_, terms, placement_.rank), Stage::kConnecting,
      target, kConnectLimit);
}

// At the next address, at the next turn; when all were tried, a little later.
void TcpNetwork::retry(const Target& target, const std::string& why) {
  const auto found = opening_.find(target);
  if (found == opening_.end()) return;
  Opening& opening = found->second;
  const std::vector<TcpAddress>& addresses = peer(target.rank).addresses;
  const std::size_t count = addresses.size();
  opening.obstacle = to_string(addresses[opening.next_address % count]) + ": " + why;
  ++opening.next_address;
  const bool all_tried = opening.next_address % count == 0;
  opening.retry_at = Clock::now() + (all_tried ? kRetryInterval : Duration::zero());
}

void TcpNetwork::connecting_ended(Link& link) {
  const int error = connect_result(link.channel.descriptor());
  if (error != 0) return broken(link.id, std::strerror(error));
  link.stage = Stage::kGreeting;
  link.deadline = Clock::now() + kGreetLimit;
  shake_hands(link);
}

bool TcpNetwork::expects(const Target& from, bool left_too) const {
  if (from.rank < 0 || from.rank >= placement_.size() || from.rank == placement_.rank) return false;
  const Peer& other = peer(from.rank);
  return !accepted_.contains(from) && !other.lost && (left_too || !other.left);
}

void TcpNetwork::shake_hands(Link& link) {
  const bool was_welcomed = link.welcomed();
  if (link.channel.shake_hands()) return come_up(link);
  const Handshake& handshake = link.channel.handshake();
  if (handshake.state() == Handshake::State::kFailed) {
    return broken(link.id, "the listener there " + handshake.why());
  }
  if (link.channel.ended()) return broken(link.id, link.channel.end());
  if (departure_ && !was_welcomed) departure_->say(link);
  watch(link, false);
}

void TcpNetwork::come_up(Link& link) {
  const bool incoming = link.stage == Stage::kUnauthenticated;
  if (incoming) {
    const Target target{link.channel.handshake().from(), link.channel.handshake().service()};
    // Since this one was welcomed its rank may have come twice, or have sent all over it and left.
    const bool is_data = target.service == HandshakeService::kData;
    if (!expects(target, is_data)) return close(link.id);
    accepted_.insert(target);
    link.target = target;
  }
  if (link.target.service == HandshakeService::kData) {
    // It never is: the hello alone was written to it.
    if (link.channel.unsent() > 0) return broken(link.id, "its socket is full");
    if (!incoming) opening_.erase(link.target);
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.channel.descriptor(), nullptr);
    allow_slow_reader(link.channel.descriptor());
    data_.push_back({link.target.rank, incoming, link.channel.release(), {}});
    unsettled_.erase(link.id);
    links_.erase(link.id);
    return;
  }
  Peer& other = peer(link.target.rank);
  if (!incoming) {
    opening_.erase(link.target);
    other.sending = link.id;
    for (const Bytes& each : std::exchange(other.waiting, {})) {
      say(link, TcpFrameKind::kMessage, each);
    }
  } else if (other.sending == 0 && !opening_.contains(link.target)) {
    other.sending = link.id;
  }
  link.stage = Stage::kUp;
  unsettled_.erase(link.id);
  if (departure_) departure_->say(link);
  watch(link, false);
}

void TcpNetwork::send(Rank to, std::span<const std::byte> message) {
  Peer& other = peer(to);
  if (departure_ || other.left || other.lost) return;
  if (message.size() > kLongestFrame) {
    throw InternalError("a control message of ", message.size(), " bytes; the longest one is ",
                        kLongestFrame);
  }
  if (other.sending == 0) {
    other.waiting.emplace_back(message.begin(), message.end());
    return open({.rank = to}, Clock::now() + link_timeout_);
  }
  say(links_.at(other.sending), TcpFrameKind::kMessage, message);
}

void TcpNetwork::Departure::say(Link& link) const {
  // A welcomed peer would take the end of its connection for the death of this rank, which may be
  // gone before it reads the confirmation. A reason is only for a peer proven to be of this job.
  const bool may_hear =
      link.stage == Stage::kUp || (link.welcomed() && kind == TcpFrameKind::kGoodbye);
  if (!may_hear) return;
  link.channel.send(static_cast<std::uint8_t>(kind), kNoRank, std::as_bytes(std::span(why)));
}

void TcpNetwork::part(TcpFrameKind how, const std::string& why) {
  if (departure_) return;
  departure_ = {how, why};
  for (auto& [id, link] : links_) {
    departure_->say(link);
    watch(link, false);
  }
}

bool TcpNetwork::parted() const {
  const auto delivers = [this](const auto& entry) {
    return !peer(entry.first.rank).waiting.empty();
  };
  if (std::any_of(opening_.begin(), opening_.end(), delivers)) return false;
  return std::none_of(links_.begin(), links_.end(), [](const auto& entry) {
    return entry.second.stage == Stage::kUp || entry.second.welcomed();
  });
}

}  // namespace hvd::engine
