#include "ops/net/tcp_network.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/fields.h"
#include "ops/net/tcp_socket.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kUnauthenticatedLimit =
    seconds(5);  // from the connection to the end of the handshake
constexpr Duration kReasonLimit = milliseconds(500);  // see data_ended()
constexpr Duration kListenPause = milliseconds(100);  // without descriptors
constexpr unsigned kFrameKinds = 4;
constexpr int kAcceptsInARow = 2;  // of a listener: whoever polls must not be held up by others
constexpr std::uint64_t kListener = std::uint64_t{1} << 63;  // in epoll, before a listener's place

bool watch_listeners(int epoll, int operation, std::span<const TcpListener> listeners,
                     std::uint32_t events) {
  bool worked = true;
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    epoll_event event{events, {.u64 = kListener | i}};
    worked = epoll_ctl(epoll, operation, listeners[i].socket.get(), &event) == 0 && worked;
  }
  return worked;
}

}  // namespace

TcpNetwork::TcpNetwork(const Placement& placement, std::vector<TcpListener> listeners,
                       std::vector<TcpEndpoint> endpoints, const JobKey& key, Duration link_timeout)
    : placement_(placement),
      link_timeout_(link_timeout),
      key_(key),
      listeners_(std::move(listeners)),
      endpoints_(std::move(endpoints)),
      local_(local_addresses()),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      peers_(std::make_unique<Peer[]>(endpoints_.size())),
      next_heartbeat_(Clock::now() + link_timeout_ / kHeartbeats) {
  if (epoll_ && watch_listeners(epoll_.get(), EPOLL_CTL_ADD, listeners_, EPOLLIN)) return;
  throw InternalError("cannot watch the connections, epoll: ", std::strerror(errno));
}

bool TcpNetwork::serve() {
  std::array<epoll_event, 64> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = ready[static_cast<std::size_t>(i)];
    const Id id = event.data.u64;
    if ((id & kListener) != 0) {
      accept_all(listeners_[id & ~kListener]);
      continue;
    }
    Link* const link = links_.get(id);
    if (link == nullptr) continue;
    if (link->stage == Stage::kConnecting) {
      connecting_ended(*link);
      continue;
    }
    if ((event.events & EPOLLOUT) != 0) {
      link->channel.flush();
      watch(*link, false);
    }
    if ((event.events & ~std::uint32_t{EPOLLOUT}) != 0) read(id);
  }
  const TimePoint now = Clock::now();
  if (now >= listen_again_) {
    listen_again_ = TimePoint::max();
    watch_listeners(epoll_.get(), EPOLL_CTL_MOD, listeners_, EPOLLIN);
  }
  for (const Id id : std::vector<Id>(unsettled_.begin(), unsettled_.end())) {
    const Link* const link = links_.get(id);
    if (link != nullptr && now >= link->deadline) broken(id, "no answer");
  }
  std::vector<Rank> ended;
  for (const auto& [rank, limit] : ending_) {
    if (now >= limit) ended.push_back(rank);
  }
  for (const Rank rank : ended) lose(rank, peer(rank).why);
  if (now >= next_heartbeat_) heartbeat(now);
  std::vector<Target> targets;
  for (const auto& [target, opening] : opening_) targets.push_back(target);
  for (const Target& target : targets) {
    const auto found = opening_.find(target);
    if (found == opening_.end()) continue;
    if (now >= found->second.give_up) {
      lose(target.rank, obstacle(target.rank));
    } else if (now >= found->second.retry_at) {
      attempt(target);
    }
  }
  return count > 0;
}

TimePoint TcpNetwork::next_deadline() const {
  TimePoint deadline = std::min(listen_again_, next_heartbeat_);
  for (const auto& [rank, limit] : ending_) deadline = std::min(deadline, limit);
  for (const Id id : unsettled_) deadline = std::min(deadline, links_.at(id).deadline);
  for (const auto& [target, opening] : opening_) {
    deadline = std::min({deadline, opening.retry_at, opening.give_up});
  }
  return deadline;
}

void TcpNetwork::accept_all(const TcpListener& listener) {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    TcpDescriptor socket = accept_from(listener.socket.get(), link_timeout_);
    if (!socket) {
      if (!is_out_of_descriptors(errno)) return;
      watch_listeners(epoll_.get(), EPOLL_CTL_MOD, listeners_, 0);
      listen_again_ = Clock::now() + kListenPause;
      return;
    }
    // The oldest makes room, one that has said nothing first. A rank of this job has proven its
    // name long before so many others came.
    std::vector<Id> unauthenticated;
    for (const Id id : unsettled_) {
      if (links_.at(id).stage == Stage::kUnauthenticated) unauthenticated.push_back(id);
    }
    if (unauthenticated.size() >= kMaxUnauthenticatedPeers) {
      const auto silent = std::ranges::find_if(unauthenticated, [this](Id id) {
        return links_.at(id).channel.handshake().missing() == kHelloBytes;
      });
      close(silent != unauthenticated.end() ? *silent : unauthenticated.front());
    }
    const Handshake::Terms terms{HandshakeService::kControl, kEpoch, placement_.rank,
                                 HandshakeService::kData};
    auto handshake = Handshake::listener(key_, terms, [this](Rank from, HandshakeService service) {
      return expects({from, service});
    });
    add(std::move(socket), std::move(handshake), Stage::kUnauthenticated, {},
        kUnauthenticatedLimit);
  }
}

void TcpNetwork::add(TcpDescriptor socket, Handshake handshake, Stage stage, const Target& target,
                     Duration limit) {
  const Id id = ++last_id_;
  Link& link = links_[id];
  link.id = id;
  link.channel = Channel(std::move(socket), std::move(handshake), {kFrameKinds, kLongestFrame});
  link.stage = stage;
  link.target = target;
  link.deadline = Clock::now() + limit;
  unsettled_.insert(id);
  watch(link, true);
}

void TcpNetwork::watch(Link& link, bool is_new) {
  const bool writing = link.stage == Stage::kConnecting || link.channel.unsent() > 0;
  if (!is_new && writing == link.watches_writing) return;
  link.watches_writing = writing;
  epoll_event event{EPOLLIN | (writing ? EPOLLOUT : 0u), {.u64 = link.id}};
  epoll_ctl(epoll_.get(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, link.channel.descriptor(),
            &event);
}

void TcpNetwork::close(Id id) {
  const Link* const link = links_.get(id);
  if (link == nullptr) return;
  const Rank rank = link->target.rank;
  if (rank >= 0 && peer(rank).sending == id) peer(rank).sending = 0;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link->channel.descriptor(), nullptr);
  unsettled_.erase(id);
  links_.erase(id);
}

void TcpNetwork::say(Link& link, TcpFrameKind kind, std::span<const std::byte> text) {
  link.channel.send(static_cast<std::uint8_t>(kind), kNoRank, text);
  watch(link, false);
}

void TcpNetwork::read(Id id, bool all) {
  Link* link = links_.get(id);
  if (link == nullptr) return;
  if (link->stage != Stage::kUp) return shake_hands(*link);
  try {
    for (bool more = true; more;) {
      const std::size_t before = link->channel.received();
      const bool alive = link->channel.read();
      const bool any = link->channel.received() > before;
      if (any) link->silent = 0;
      more = any && all;
      while (auto frame = link->channel.next()) {
        take_frame(id, *std::move(frame));
        link = links_.get(id);  // that may have ended it
        if (link == nullptr) return;
      }
      if (!alive) return broken(id, link->channel.end());
    }
  } catch (const PeerLostError& error) {
    broken(id, error.what());
  }
}

void TcpNetwork::take_frame(Id id, Frame frame) {
  const Link* const link = links_.get(id);
  const auto kind = static_cast<TcpFrameKind>(frame.type);
  if (link == nullptr || kind == TcpFrameKind::kHeartbeat) return;
  const Rank rank = link->target.rank;
  Peer& other = peer(rank);
  if (kind == TcpFrameKind::kMessage) {
    events_.push_back({rank, std::move(frame.payload), false, {}});
  } else if (kind == TcpFrameKind::kGoodbye) {
    other.left = true;
    other.waiting.clear();
    opening_.erase({rank, HandshakeService::kControl});
    close(id);
    if (opening_.contains({rank, HandshakeService::kData})) data_ended(rank, "has left");
  } else {
    other.why = placement_.described(rank) + " failed: " + to_text(frame.payload);
    close(id);
    lose(rank, other.why);
  }
}

// Silence is counted in heartbeats of this rank and not by a clock: while this process is stopped
// (Ctrl-Z, a debugger) it hears no peer, and they may be stopped as well.
void TcpNetwork::heartbeat(TimePoint now) {
  next_heartbeat_ = now + link_timeout_ / kHeartbeats;
  if (departure_) return;
  for (const Id id : links_.where([](const Link& each) { return each.stage == Stage::kUp; })) {
    Link* const link = links_.get(id);
    if (link == nullptr) continue;
    if (++link->silent >= kHeartbeats) {
      const Rank rank = link->target.rank;
      lose(rank, placement_.described(rank) + " does not answer: nothing has come from it for " +
                     seconds_text(link_timeout_) +
                     " (HVD_LINK_TIMEOUT_SECONDS), so its process or its host is stopped");
    } else if (link->channel.unsent() == 0) {  // what is to be sent says as much
      say(*link, TcpFrameKind::kHeartbeat, {});
    }
  }
}

void TcpNetwork::broken(Id id, std::string why) {
  const Link* const link = links_.get(id);
  if (link == nullptr) return;
  const Stage stage = link->stage;
  const Target target = link->target;
  close(id);
  if (stage == Stage::kUnauthenticated) return;
  if (stage != Stage::kUp) {
    retry(target, why.empty() ? "refused: another job listens there, or the rank is gone" : why);
  } else if (!departure_) {
    lose(target.rank, placement_.described(target.rank) + " is gone: its connection " +
                          (why.empty() ? "closed without a goodbye" : "broke (" + why + ")"));
  }
}

void TcpNetwork::data_ended(Rank rank, const std::string& how) {
  Peer& other = peer(rank);
  if (other.lost || !ending_.emplace(rank, Clock::now() + kReasonLimit).second) return;
  other.why = placement_.described(rank) + " " + how;
}

// The link that tells is closed already.
void TcpNetwork::lose(Rank rank, const std::string& why) {
  Peer& other = peer(rank);
  if (other.lost) return;
  other.lost = true;
  other.why = why;
  const std::vector<Id> ids =
      links_.where([rank](const Link& each) { return each.target.rank == rank; });
  for (const Id id : ids) {
    // What it sent before, and perhaps why or that it leaves, is on the other link.
    const Link* const link = links_.get(id);
    if (link != nullptr && link->stage == Stage::kUp) read(id, true);
  }
  for (const Id id : ids) close(id);
  opening_.erase({rank, HandshakeService::kControl});
  opening_.erase({rank, HandshakeService::kData});
  ending_.erase(rank);
  other.waiting.clear();
  data_.push_back({rank, false, {}, other.why});
  // Of one that left in order only its data is missed.
  if (!other.left) events_.push_back({rank, {}, true, other.why});
}

}  // namespace hvd::engine
