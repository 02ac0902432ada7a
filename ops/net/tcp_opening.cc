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
  watch(add(std::move(socket), Stage::kConnecting, target, kConnectLimit), true);
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
  const int error = connect_result(link.socket.get());
  if (error != 0) return broken(link.id, std::strerror(error));
  link.stage = Stage::kGreeting;
  link.deadline = Clock::now() + kGreetLimit;
  const Handshake::Terms terms{link.target.service, kEpoch, link.target.rank};
  link.handshake = Handshake::caller(key_, terms, placement_.rank);
  link.outbox.push_back(link.handshake->take_output());
  flush(link);
}

bool TcpNetwork::expects(const Target& from, bool left_too) const {
  if (from.rank < 0 || from.rank >= placement_.size() || from.rank == placement_.rank) return false;
  const Peer& other = peer(from.rank);
  return !accepted_.contains(from) && !other.lost && (left_too || !other.left);
}

void TcpNetwork::take_handshake(Link& link, std::span<const std::byte> bytes) {
  const Id id = link.id;
  link.handshake->take(bytes);
  if (link.handshake->state() == Handshake::State::kFailed) {
    std::string ignored;  // what it still has to say fits a socket that nothing was written to
    write_some(link.socket.get(), link.handshake->take_output(), ignored);
    return broken(id, "the listener there " + link.handshake->why());
  }
  if (link.handshake->state() == Handshake::State::kGoing) {
    Bytes answer = link.handshake->take_output();
    if (answer.empty()) return;
    link.outbox.push_back(std::move(answer));
    departure_.say(link);
    return flush(link);
  }
  come_up(link);
}

void TcpNetwork::come_up(Link& link) {
  const bool incoming = link.stage == Stage::kUnauthenticated;
  if (incoming) {
    const Target target{link.handshake->from(), link.handshake->service()};
    // Since this one was welcomed its rank may have come twice, or have sent all over it and left.
    const bool is_data = target.service == HandshakeService::kData;
    if (!expects(target, is_data)) return close(link.id);
    accepted_.insert(target);
    link.target = target;
  }
  Bytes last = link.handshake->take_output();
  if (link.target.service == HandshakeService::kData) {
    const Id id = link.id;
    std::string why = "its socket is full";  // it never is: the hello alone was written to it
    if (write_some(link.socket.get(), last, why) != last.size()) return broken(id, why);
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.socket.get(), nullptr);
    allow_slow_reader(link.socket.get());
    if (!incoming) opening_.erase(link.target);
    data_.push_back({link.target.rank, incoming, std::move(link.socket), {}});
    unsettled_.erase(id);
    links_.erase(id);
    return;
  }
  Peer& other = peer(link.target.rank);
  if (!incoming) {
    opening_.erase(link.target);
    other.sending = link.id;
    link.outbox.push_back(std::move(last));
    std::ranges::move(other.waiting, std::back_inserter(link.outbox));
    other.waiting.clear();
  } else if (other.sending == 0 && !opening_.contains(link.target)) {
    other.sending = link.id;
  }
  link.stage = Stage::kUp;
  link.handshake.reset();
  unsettled_.erase(link.id);
  departure_.say(link);
  watch(link, false);  // not now: frames of this link may be being read
}

void TcpNetwork::send(Rank to, std::span<const std::byte> message) {
  Peer& other = peer(to);
  if (!departure_.empty() || other.left || other.lost) return;
  Bytes frame = make_frame(TcpFrameKind::kMessage, message);
  if (other.sending == 0) {
    other.waiting.push_back(std::move(frame));
    return open({.rank = to}, Clock::now() + link_timeout_);
  }
  Link& link = links_.at(other.sending);
  link.outbox.push_back(std::move(frame));
  flush(link);
}

void TcpNetwork::Departure::say(Link& link) const {
  // A welcomed peer would take the end of its connection for the death of this rank, which may be
  // gone before it reads the confirmation. A reason is only for a peer proven to be of this job.
  const bool may_hear =
      link.stage == Stage::kUp || (link.welcomed() && kind == TcpFrameKind::kGoodbye);
  if (!empty() && may_hear) link.outbox.push_back(frame);
}

void TcpNetwork::part(TcpFrameKind how, const std::string& why) {
  if (!departure_.empty()) return;
  departure_ = {how, make_frame(how, std::as_bytes(std::span(why)))};
  for (auto& [id, link] : links_) departure_.say(link);
  for (const Id id : links_.where([](const Link& each) { return !each.outbox.empty(); })) {
    if (Link* const link = links_.get(id)) flush(*link);
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
