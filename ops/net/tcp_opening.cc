// How the connections of a TcpNetwork begin, what is sent over them, and how they end in order.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "ops/net/tcp_network.h"

namespace hvd {
namespace {

constexpr Duration kConnectLimit = std::chrono::seconds(2);          // of one address
constexpr Duration kGreetLimit = std::chrono::seconds(5);            // from there to the welcome
constexpr Duration kRetryInterval = std::chrono::milliseconds(100);  // before all are tried again

}  // namespace

std::string TcpNetwork::obstacle(Rank rank) const {
  if (!opening_.contains(rank)) {
    return placement_.described(rank) + " has not connected to host " +
           placement_.host_name(placement_.rank);
  }
  const TcpEndpoint& there = endpoints_[static_cast<std::size_t>(rank)];
  std::string addresses;
  for (const TcpAddress& each : there.addresses) {
    addresses += (addresses.empty() ? "" : ", ") + to_string(each);
  }
  const std::string& last = peer(rank).obstacle;
  return placement_.described(rank) + " cannot be reached from host " +
         placement_.host_name(placement_.rank) + " at " +
         (addresses.empty() ? "any address" : addresses) +
         (last.empty() ? "" : " (last attempt: " + last + ")") +
         ": check the network and the firewalls between the hosts, choose an interface with "
         "hvdrun --network-interfaces (HOROVOD_GLOO_IFACE), or let MPI carry control messages "
         "with HVD_CONTROL_PLANE=mpi";
}

void TcpNetwork::open(Rank rank, TimePoint give_up) {
  Peer& other = peer(rank);
  if (other.sending != 0 || other.left || other.lost) return;
  const bool is_new = opening_.insert(rank).second;
  other.give_up = is_new ? give_up : std::max(other.give_up, give_up);
  if (!is_new) return;
  const TcpEndpoint& there = endpoints_[static_cast<std::size_t>(rank)];
  if (other.addresses.empty()) other.addresses = in_order_of_promise(there.addresses, local_);
  attempt(rank);
}

void TcpNetwork::attempt(Rank rank) {
  Peer& other = peer(rank);
  other.retry_at = TimePoint::max();
  if (other.addresses.empty()) return;  // until give_up
  const TcpAddress& address = other.addresses[other.next_address % other.addresses.size()];
  TcpDescriptor socket = connect_to(address, link_timeout_);
  if (!socket) return retry(rank, std::strerror(errno));
  watch(add(std::move(socket), Stage::kConnecting, rank, kConnectLimit), true);
}

// At the next address, at the next turn; when all were tried, a little later.
void TcpNetwork::retry(Rank rank, const std::string& why) {
  if (!opening_.contains(rank)) return;
  Peer& other = peer(rank);
  const std::size_t count = other.addresses.size();
  other.obstacle = to_string(other.addresses[other.next_address % count]) + ": " + why;
  ++other.next_address;
  const bool all_tried = other.next_address % count == 0;
  other.retry_at = Clock::now() + (all_tried ? kRetryInterval : Duration::zero());
}

void TcpNetwork::connecting_ended(Link& link) {
  const int error = connect_result(link.socket.get());
  if (error != 0) return broken(link.id, std::strerror(error));
  link.stage = Stage::kGreeting;
  link.deadline = Clock::now() + kGreetLimit;
  const Handshake::Terms terms{HandshakeService::kControl, kEpoch, link.rank};
  link.handshake = Handshake::caller(key_, terms, placement_.rank);
  link.outbox.push_back(link.handshake->take_output());
  flush(link);
}

bool TcpNetwork::expects(Rank rank) const {
  if (rank < 0 || rank >= placement_.size() || rank == placement_.rank) return false;
  const Peer& other = peer(rank);
  return !other.accepted && !other.lost && !other.left;
}

void TcpNetwork::take_handshake(Link& link, std::span<const std::byte> bytes) {
  const Id id = link.id;
  const std::size_t used = link.handshake->take(bytes);
  if (link.handshake->state() == Handshake::State::kFailed) {
    std::string ignored;  // what it still has to say fits a socket that nothing was written to
    write_some(link.socket.get(), link.handshake->take_output(), ignored);
    return broken(id, "who answers there " + link.handshake->why());
  }
  if (link.handshake->state() == Handshake::State::kGoing) {
    Bytes answer = link.handshake->take_output();
    if (answer.empty()) return;
    link.outbox.push_back(std::move(answer));
    return flush(link);
  }
  come_up(link);
  const auto found = links_.find(id);
  if (found != links_.end() && used < bytes.size()) take(found->second, bytes.subspan(used));
}

void TcpNetwork::come_up(Link& link) {
  if (link.stage == Stage::kUnauthenticated) {
    const Rank rank = link.handshake->from();
    if (!expects(rank)) return close(link.id);  // it came twice at once
    link.rank = rank;
    Peer& other = peer(link.rank);
    other.accepted = true;
    if (other.sending == 0 && !opening_.contains(link.rank)) other.sending = link.id;
  } else {
    Peer& other = peer(link.rank);
    opening_.erase(link.rank);
    other.sending = link.id;
    link.outbox.push_back(link.handshake->take_output());
    std::ranges::move(other.waiting, std::back_inserter(link.outbox));
    other.waiting.clear();
  }
  link.stage = Stage::kUp;
  link.handshake.reset();
  unsettled_.erase(link.id);
  if (!departure_.empty()) link.outbox.push_back(departure_);
  watch(link, false);  // not now: frames of this link may be being read
}

void TcpNetwork::send(Rank to, std::span<const std::byte> message) {
  Peer& other = peer(to);
  if (!departure_.empty() || other.left || other.lost) return;
  Bytes frame = make_frame(TcpFrameKind::kMessage, message);
  if (other.sending == 0) {
    other.waiting.push_back(std::move(frame));
    return open(to, Clock::now() + link_timeout_);
  }
  Link& link = links_.at(other.sending);
  link.outbox.push_back(std::move(frame));
  flush(link);
}

void TcpNetwork::part(TcpFrameKind how, const std::string& why) {
  if (!departure_.empty()) return;
  departure_ = make_frame(how, std::as_bytes(std::span(why)));
  std::vector<Id> up;
  for (auto& [id, link] : links_) {
    if (link.stage != Stage::kUp) continue;
    link.outbox.push_back(departure_);
    up.push_back(id);
  }
  for (const Id id : up) {
    if (const auto found = links_.find(id); found != links_.end()) flush(found->second);
  }
}

bool TcpNetwork::parted() const {
  const auto delivers = [this](Rank rank) { return !peer(rank).waiting.empty(); };
  if (std::any_of(opening_.begin(), opening_.end(), delivers)) return false;
  return std::none_of(links_.begin(), links_.end(),
                      [](const auto& entry) { return entry.second.stage == Stage::kUp; });
}

}  // namespace hvd
