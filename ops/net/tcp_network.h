#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"
#include "core/ports/rendezvous.h"
#include "ops/net/channel.h"
#include "ops/net/handshake.h"
#include "ops/net/secret.h"
#include "ops/net/tcp_socket.h"

namespace hvd::engine {

// What the ranks of two hosts say to each other over a Channel.
enum class TcpFrameKind : std::uint8_t {
  kMessage = 0,
  kGoodbye,  // the last one of a rank that leaves in order
  kFailure,  // the last one of a rank that fails: why
  kHeartbeat,
};

inline constexpr std::size_t kLongestFrame = std::size_t{1} << 30;  // bytes

// The connections of one rank: an event loop's body, without a thread, a lock or a wait. For
// control messages a pair of ranks has one connection, or two if both began one at the same time;
// each end sends all its messages over one of them, so that they stay in order. Connections for
// data are made in the same way, one by each end that has something to send, and handed out. Not
// thread-safe.
class TcpNetwork {
 public:
  // What a connection is made for.
  struct Target {
    Rank rank = -1;
    HandshakeService service = HandshakeService::kControl;
    bool operator<(const Target& other) const {
      return std::tie(rank, service) < std::tie(other.rank, other.service);
    }
  };

  // What happened: a message, or the loss of a rank, in which case `why` names rank and host.
  struct Event {
    Rank from = 0;
    Bytes message;
    bool lost = false;
    std::string why;
  };

  // A connection for data that was made, or the loss of the rank.
  struct Data {
    Rank peer = 0;
    bool incoming = false;  // the peer made it, and sends
    TcpDescriptor socket;   // none: the peer is lost
    std::string why;        // names rank and host
  };

  static constexpr std::size_t kMaxUnauthenticatedPeers =
      64;  // connections that have not proven who they are

  // `endpoints[r]` is rank r's; this rank's is that of `listeners`. `key` is the job's. A peer from
  // which nothing comes for `link_timeout` is lost, although its host acknowledges: it is stopped.
  TcpNetwork(const Placement& placement, std::vector<TcpListener> listeners,
             std::vector<TcpEndpoint> endpoints, const JobKey& key, Duration link_timeout);
  TcpNetwork(const TcpNetwork&) = delete;  // its handshakes point to it

  // To be waited on by epoll or poll: readable when serve() has something to do.
  int descriptor() const noexcept { return epoll_.get(); }
  // Does what can be done now. False if there was nothing.
  bool serve();
  // When serve() must be called although nothing is readable.
  TimePoint next_deadline() const;

  // Connects if it is not connected; for data, at most once per rank. A rank that cannot be reached
  // by then is lost.
  void open(const Target& target, TimePoint give_up);
  bool connected(Rank rank) const { return peer(rank).sending != 0; }
  // Why open() has not succeeded so far.
  std::string obstacle(Rank rank) const;
  // Queues a message, and connects first if need be. What is sent to a rank that is gone vanishes.
  void send(Rank to, std::span<const std::byte> message);
  // What happened, oldest first. A rank is lost at most once, and nothing of it follows.
  std::deque<Event>& events() noexcept { return events_; }
  // Connections for data that were made, and the ranks that were lost, since they were taken.
  std::deque<Data>& data() noexcept { return data_; }
  // Its connection for data ended, or will not be made, although something was awaited: the rank is
  // lost unless it is heard meanwhile why (by itself or, where the two are not connected otherwise,
  // by rank 0). `how`, such as "has left", follows its name.
  void data_ended(Rank rank, const std::string& how);

  // The last thing that is said to all who are connected. Nothing is sent to others afterwards.
  void part(TcpFrameKind how, const std::string& why);
  // After part(): all that was to be sent has reached the others, or they are gone.
  bool parted() const;

 private:
  using Id = std::uint64_t;  // of a link; 0 = none

  static constexpr int kHeartbeats = 10;      // in link_timeout
  static constexpr std::uint64_t kEpoch = 0;  // of the job, until jobs are elastic

  enum class Stage {
    kConnecting,       // this end began it
    kGreeting,         // and the handshake goes on
    kUnauthenticated,  // the other end began it, and the handshake goes on
    kUp,
  };

  struct Link {
    Id id = 0;
    Channel channel;
    Stage stage = Stage::kUnauthenticated;
    Target target;       // the other end; of an unauthenticated one rank -1
    TimePoint deadline;  // of the handshake
    bool watches_writing = false;
    int silent = 0;  // heartbeats of this rank since anything came

    // The other end began it, and may take it for one that is up.
    bool welcomed() const {
      const Handshake& handshake = channel.handshake();
      return stage == Stage::kUnauthenticated && handshake.awaits_confirm() &&
             handshake.service() == HandshakeService::kControl;
    }
  };

  struct Links : std::map<Id, Link> {  // a map: links do not move
    // nullptr if it has ended.
    Link* get(Id id) {
      const auto found = find(id);
      return found == end() ? nullptr : &found->second;
    }
    // Those for which `holds`: what is done with one may end others.
    std::vector<Id> where(const auto& holds) const {
      std::vector<Id> ids;
      for (const auto& [id, link] : *this) {
        if (holds(link)) ids.push_back(id);
      }
      return ids;
    }
  };

  // What this rank says last.
  struct Departure {
    TcpFrameKind kind = TcpFrameKind::kGoodbye;
    std::string why;

    // Where it may be said. To say it twice does no harm.
    void say(Link& link) const;
  };

  struct Peer {
    std::vector<TcpAddress> addresses;
    Id sending = 0;
    bool left = false;
    bool lost = false;
    std::deque<Bytes> waiting;  // messages for the connection that is being made
    std::string why;            // it was lost
  };

  // A connection that is being made.
  struct Opening {
    TimePoint give_up;
    TimePoint retry_at = TimePoint::max();
    std::size_t next_address = 0;
    std::string obstacle;  // what the last attempt met
  };

  Peer& peer(Rank rank) const { return peers_[static_cast<std::size_t>(rank)]; }

  void accept_all(const TcpListener& listener);
  void add(TcpDescriptor socket, Handshake handshake, Stage stage, const Target& target,
           Duration limit);
  void watch(Link& link, bool is_new);
  void close(Id id);

  void attempt(const Target& target);
  void retry(const Target& target, const std::string& why);
  void connecting_ended(Link& link);
  // The other end has proven who it is.
  void come_up(Link& link);
  // These may end links: a link is looked up again afterwards.
  void say(Link& link, TcpFrameKind kind, std::span<const std::byte> text);
  void read(Id id, bool all = false);  // else no more than keeps others waiting for a moment
  void shake_hands(Link& link);
  // A connection of it, or one that it began before it left.
  bool expects(const Target& from, bool left_too = false) const;
  void take_frame(Id id, Frame frame);
  // Says to all who are connected that this rank runs; loses those who no longer say so.
  void heartbeat(TimePoint now);
  void broken(Id id, std::string why);
  // Ends all connections of a rank; `why` names it and its host.
  void lose(Rank rank, const std::string& why);

  const Placement placement_;
  const Duration link_timeout_;
  const JobKey key_;
  std::vector<TcpListener> listeners_;
  std::vector<TcpEndpoint> endpoints_;
  std::vector<LocalAddress> local_;
  UniqueFd epoll_;
  std::unique_ptr<Peer[]> peers_;  // by rank
  Links links_;
  Id last_id_ = 0;
  std::set<Id> unsettled_;  // links whose handshake goes on
  std::map<Target, Opening> opening_;
  std::set<Target> accepted_;  // what others have connected to this rank
  std::deque<Event> events_;
  std::deque<Data> data_;
  std::map<Rank, TimePoint> ending_;  // data_ended(): when they are lost
  TimePoint next_heartbeat_;
  TimePoint listen_again_ = TimePoint::max();  // the system was out of descriptors
  std::optional<Departure> departure_;
};

}  // namespace hvd::engine
