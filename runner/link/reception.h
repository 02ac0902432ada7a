#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "ops/net/handshake.h"
#include "ops/net/tcp_socket.h"
#include "runner/link/connection.h"

namespace hvd::runner {

// Where agents connect to hvdrun and prove that they are of this job. Who has not done so costs a
// descriptor and some 200 bytes, for kUnauthenticatedLimit at most; if too many come, the oldest
// go. Not thread-safe.
class Reception {
 public:
  static constexpr std::size_t kMaxUnauthenticatedPeers = 64;  // besides one for each rank
  static constexpr Duration kUnauthenticatedLimit = std::chrono::seconds(10);

  struct Agent {
    int rank = -1;
    Connection connection;
  };
  // Whether the agent of this rank may come.
  using Expects = std::function<bool(int rank)>;

  // `link_timeout`: after which a connection to a host that is gone breaks.
  Reception(Listener listener, int np, Duration link_timeout, Expects expects);

  // Where agents find this hvdrun, with the key of this job, which is drawn anew.
  const AgentAddress& address() const { return address_; }

  // What poll() should wait for, added to `polls`.
  void add_polls(std::vector<pollfd>& polls) const;
  // When serve() must be called although nothing is ready; max() if never.
  TimePoint next_deadline() const;
  // Does what can be done now. `polls` are those that add_polls() added, after poll(). Returns who
  // proved to be an agent of this job.
  std::vector<Agent> serve(std::span<const pollfd> polls, TimePoint now);
  std::size_t strangers() const { return strangers_.size(); }

 private:
  struct UnauthenticatedPeer {
    TcpDescriptor socket;
    Handshake handshake;
    TimePoint deadline;
  };

  bool serve(UnauthenticatedPeer& stranger, std::vector<Agent>& agents);
  void accept_all(int listening, TimePoint now);

  Listener listener_;
  AgentAddress address_;
  std::size_t most_;
  Duration link_timeout_;
  Expects expects_;
  std::list<UnauthenticatedPeer> strangers_;  // oldest first
  TimePoint listen_again_{};                  // the system was out of descriptors
};

}  // namespace hvd::runner
