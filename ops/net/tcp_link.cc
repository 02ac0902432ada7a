#include "ops/net/tcp_link.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

// How often to look for notes while nothing here waits for any.
constexpr Duration kLookInterval = std::chrono::milliseconds(5);

// Of an outgoing connection: this end reads nothing from it.
constexpr std::uint32_t kReaderLeft = EPOLLERR | EPOLLHUP | EPOLLRDHUP;

// What epoll says of a connection.
constexpr std::uint64_t tag_of(Rank rank, bool incoming) {
  return static_cast<std::uint64_t>(rank) * 2 + (incoming ? 1 : 0);
}

}  // namespace

class TcpMessages final : public host::Messages {
 public:
  explicit TcpMessages(TcpLink& link) : link_(link) {}
  ~TcpMessages() override { TcpMessages::withdraw(); }
  TcpMessages(const TcpMessages&) = delete;
  TcpMessages& operator=(const TcpMessages&) = delete;

  void send(Rank to, const host::MessageKey& key, std::span<const std::byte> data) override {
    link_.post_send(to, key, data, outstanding_);
  }
  void receive(Rank from, const host::MessageKey& key, std::span<std::byte> data) override {
    link_.post_receive(from, key, data, outstanding_);
  }
  bool arrived() override {
    if (outstanding_.count == 0) return true;
    link_.poll();
    link_.throw_if_lost(outstanding_);
    return outstanding_.count == 0;
  }
  bool complete() const noexcept override { return outstanding_.complete; }
  bool withdraw() noexcept override {
    if (outstanding_.count > 0) link_.withdraw(outstanding_);
    outstanding_.count = 0;
    return true;
  }

 private:
  TcpLink& link_;
  TcpOutstanding outstanding_;
};

TcpLink::TcpLink(TcpControlPlane& plane, const host::MessageLimits& limits)
    : plane_(plane), limits_(limits), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) {
    throw InternalError("cannot poll the connections, epoll_create1: ", std::strerror(errno));
  }
  for (int r = 0; r < size(); ++r) peers_.push_back(std::make_unique<Peer>());
  connect_to_self();
  plane_.watch(epoll_.get());
}

TcpLink::~TcpLink() {
  plane_.forget(epoll_.get());
}

void TcpLink::connect_to_self() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    throw InternalError("cannot connect this rank to itself, socketpair: ", std::strerror(errno));
  }
  peer(rank()).opened = true;
  take_connection({rank(), false, TcpDescriptor(ends[0]), {}});
  take_connection({rank(), true, TcpDescriptor(ends[1]), {}});
}

std::unique_ptr<host::Messages> TcpLink::messages() {
  return std::make_unique<TcpMessages>(*this);
}

void TcpLink::post_send(Rank to, const host::MessageKey& key, std::span<const std::byte> data,
                        TcpOutstanding& owner) {
  Peer& other = peer(to);
  ++owner.count;
  if (!other.lost.empty()) {
    owner.lost = to;
    return;
  }
  other.sends.post({key, TcpMessageKind::kData, data.size()}, data, &owner);
  write(to);
}

void TcpLink::say(Rank to, Bytes note) {
  Peer& other = peer(to);
  if (!other.lost.empty()) throw LostRankError(to, other.lost);
  other.sends.post_note(std::move(note));
  write(to);
}

void TcpLink::post_receive(Rank from, const host::MessageKey& key, std::span<std::byte> data,
                           TcpOutstanding& owner) {
  Peer& other = peer(from);
  ++owner.count;
  if (!other.lost.empty()) {
    owner.lost = from;
    return;
  }
  try {
    other.receives.post(key, data, &owner);
  } catch (const PeerLostError& error) {
    plane_.data_broke(from, error.what());
  }
  // What waited for this receive may have been read ahead as a whole: then epoll says nothing of
  // it.
  if (other.incoming && other.receives.blocked()) read(from, false);
  if (other.ended) report_end_if_awaited(from);
  if (!other.watches_reading) watch(other, from);
}

void TcpLink::withdraw(const TcpOutstanding& owner) noexcept {
  for (const auto& each : peers_) {
    each->sends.withdraw(&owner);
    each->receives.withdraw(&owner);
  }
}

void TcpLink::throw_if_lost(const TcpOutstanding& owner) const {
  if (owner.lost < 0 || owner.count == 0) return;
  throw LostRankError(owner.lost, peers_[static_cast<std::size_t>(owner.lost)]->lost);
}

std::optional<Message> TcpLink::hear() {
  if (notes_.empty()) poll();
  if (notes_.empty()) return std::nullopt;
  Message note = std::move(notes_.front());
  notes_.pop_front();
  return note;
}

bool TcpLink::flush() {
  poll();
  return unowned() == 0;
}

std::size_t TcpLink::unowned() const noexcept {
  std::size_t count = 0;
  for (const auto& each : peers_) count += each->sends.unowned();
  return count;
}

std::optional<Duration> TcpLink::poll_interval(bool restless) const {
  if (work_ == 0 && !restless && unowned() == 0) return std::nullopt;
  return TcpControlPlane::kPollInterval;
}

std::optional<Duration> TcpLink::prepare_sleep(bool restless) {
  if (!poll_interval(restless)) return std::nullopt;
  // What has moved may be what a caller that asked before waits for: all sockets were read for
  // whoever asked first. An operation asks about one of its rows a turn, of one per rank.
  if (looks_left_ > 0) {
    --looks_left_;
    return Duration::zero();
  }
  for (Rank r = 0; r < size(); ++r) watch(peer(r), r);
  plane_.arm(epoll_.get());
  return std::nullopt;
}

bool TcpLink::progress(TimePoint now) {
  if (now < last_looked_ + kLookInterval && unowned() == 0) return false;
  last_looked_ = now;
  poll();
  return true;
}

void TcpLink::poll() {
  for (TcpNetwork::Data& each : plane_.take_data()) {
    each.socket ? take_connection(std::move(each)) : lose(each.peer, std::move(each.why));
  }
  for (Rank r = 0; r < size(); ++r) write(r);
  std::array<epoll_event, 64> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = ready[static_cast<std::size_t>(i)];
    const auto rank = static_cast<Rank>(event.data.u64 / 2);
    if (event.data.u64 == tag_of(rank, true)) {
      read(rank, (event.events & (EPOLLERR | EPOLLHUP)) != 0);
    } else if ((event.events & kReaderLeft) != 0) {
      Peer& other = peer(rank);
      const int error = connect_result(other.outgoing.get());
      other.outgoing.reset();
      other.outgoing_end = error != 0 ? std::strerror(error) : "";
      write(rank);
    }
  }
}

void TcpLink::take_connection(TcpNetwork::Data connection) {
  Peer& other = peer(connection.peer);
  const bool incoming = connection.incoming;
  epoll_event event{incoming ? EPOLLIN : EPOLLRDHUP, {.u64 = tag_of(connection.peer, incoming)}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.socket.get(), &event) != 0) {
    return plane_.data_broke(connection.peer, std::strerror(errno));
  }
  if (incoming) other.watches_reading = true;
  (incoming ? other.incoming : other.outgoing) = std::move(connection.socket);
}

void TcpLink::write(Rank to) {
  Peer& other = peer(to);
  if (other.sends.empty()) return;
  if (!std::exchange(other.opened, true)) plane_.open_data(to);
  if (!other.outgoing) {
    // One that left in order is missed only if something is sent to it.
    if (other.outgoing_end) plane_.data_broke(to, *other.outgoing_end);
    return;
  }
  std::string why;
  const auto moved = other.sends.write(other.outgoing.get(), why);
  if (!moved || *moved) note_movement();
  if (!moved) {
    other.outgoing.reset();
    other.outgoing_end = why;
    plane_.data_broke(to, why);
  }
}

void TcpLink::read(Rank from, bool is_over) {
  Peer& other = peer(from);
  std::optional<bool> moved;
  try {
    moved = other.receives.read(other.incoming.get(), other.end);
    // What is in front of its end stays unread.
    if (moved && other.receives.blocked() && is_over) moved.reset();
  } catch (const PeerLostError& error) {
    other.end = error.what();
    plane_.data_broke(from, error.what());
  }
  for (Bytes& note : std::exchange(other.receives.notes(), {})) {
    notes_.push_back({from, std::move(note)});
  }
  if (!moved || *moved) note_movement();
  if (moved) return;
  other.incoming.reset();
  other.ended = true;
  report_end_if_awaited(from);
}

// One that left in order closes its connections before it says so.
void TcpLink::report_end_if_awaited(Rank from) {
  const Peer& other = peer(from);
  if (other.receives.awaited()) plane_.data_broke(from, other.end);
}

void TcpLink::lose(Rank rank, std::string why) {
  Peer& other = peer(rank);
  other.lost = std::move(why);
  other.outgoing.reset();
  other.incoming.reset();
  other.sends.fail(rank);
  other.receives.fail(rank);
  note_movement();
}

void TcpLink::watch(Peer& other, Rank rank) {
  const auto change = [this, rank](const TcpDescriptor& socket, bool& watched, bool wanted,
                                   bool incoming) {
    if (!socket || watched == wanted) return;
    watched = wanted;
    const std::uint32_t events = incoming ? EPOLLIN : EPOLLOUT;
    epoll_event event{(wanted ? events : 0u) | (incoming ? 0u : EPOLLRDHUP),
                      {.u64 = tag_of(rank, incoming)}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket.get(), &event);
  };
  change(other.outgoing, other.watches_writing, !other.sends.empty(), false);
  change(other.incoming, other.watches_reading, !other.receives.blocked(), true);
}

}  // namespace hvd::engine
