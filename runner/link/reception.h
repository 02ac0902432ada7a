#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "ops/net/tcp_socket.h"
#include "runner/link/connection.h"

namespace hvd::runner {

// The addresses of this machine on which hvdrun awaits its agents. `remote`: those that other
// machines may reach, of the interfaces that `interfaces` lists ("eth0,ib0") or of all if it is
// empty; else loopback. Throws InvalidArgumentError naming an interface that there is not.
std::vector<std::string> listening_addresses(bool remote, const std::string& interfaces);

// Where agents connect to hvdrun and prove that they are of this job. A peer that has not done so
// costs a descriptor and some 400 bytes, for kUnauthenticatedLimit at most; if too many come, the
// oldest go. Not thread-safe.
class Reception {
 public:
  static constexpr std::size_t kMaxUnauthenticatedPeers = 64;  // besides one for each agent
  static constexpr Duration kUnauthenticatedLimit = std::chrono::seconds(10);

  struct Agent {
    int number = -1;
    Connection connection;
  };
  // Whether the agent of this number may come.
  using Expects = std::function<bool(int number)>;

  // Listens on a TCP port of each of `addresses`, except those that the system lets no program
  // listen on; throws UnsupportedError if that is all of them. `link_timeout`: after which a
  // connection to a host that is gone breaks.
  Reception(std::span<const std::string> addresses, PortRange ports, std::string key,
            std::size_t agents, Duration link_timeout, Expects expects);

  // Where agents find this hvdrun, with the key of this job.
  const AgentAddress& address() const { return address_; }

  // What poll() should wait for, added to `polls`.
  void add_polls(std::vector<pollfd>& polls) const;
  // When serve() must be called although nothing is ready; max() if never.
  TimePoint next_deadline() const;
  // Does what can be done now. `polls` are those that add_polls() added, after poll(). Returns who
  // proved to be an agent of this job.
  std::vector<Agent> serve(std::span<const pollfd> polls, TimePoint now);
  std::size_t unauthenticated() const { return unauthenticated_.size(); }

 private:
  struct UnauthenticatedPeer {
    Connection connection;
    TimePoint deadline;
  };

  bool serve(UnauthenticatedPeer& peer, std::vector<Agent>& agents);
  void accept_all(int listening, TimePoint now);

  std::vector<engine::TcpListener> listeners_;
  AgentAddress address_;
  std::size_t most_;
  Duration link_timeout_;
  Expects expects_;
  std::list<UnauthenticatedPeer> unauthenticated_;  // oldest first
  TimePoint listen_again_{};                        // the system was out of descriptors
};

}  // namespace hvd::runner
