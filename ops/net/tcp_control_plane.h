#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/thread_annotations.h"
#include "core/config/config.h"
#include "core/ports/control_plane.h"
#include "ops/net/secret.h"
#include "ops/net/tcp_network.h"

namespace hvd::engine {

// Ranks of several hosts talk over TCP. The polling thread serves the sockets: a hop from one
// thread to another takes longer than the network. While none polls, a thread of its own serves
// them and rings the doorbell, so that the coordinator sleeps until there is something for it, and
// peers are answered whatever the coordinator does. Two ranks connect when one of them sends the
// first message to the other, or at the start by connect(). Connections for tensors come from here
// too (TcpLink), and the thread watches them while no other polls them. A peer whose connection
// ends without a goodbye, that fails, or that cannot be reached, is lost: among ranks that never
// talked none notices.
class TcpControlPlane final : public ControlPlane {
 public:
  // For callers that do not sleep.
  static constexpr Duration kPollInterval = std::chrono::microseconds(100);

  // `endpoints[r]` is where rank r listens, this one with `listeners`; `key` is the job's, which
  // all ranks have and no other process. A host that acknowledges nothing for `link_timeout`, idle
  // or not, is taken for gone. Rings `bell`, which must outlive this object, or its own doorbell.
  TcpControlPlane(const Placement& placement, std::vector<TcpListener> listeners,
                  std::vector<TcpEndpoint> endpoints, const JobKey& key, Duration link_timeout,
                  DoorbellState* bell = nullptr);
  // Gives what is still on its way one second to arrive.
  ~TcpControlPlane() override;

  // Before anything else: connects to all of `to` and waits until all of `from` have connected.
  // Throws StalledError naming a rank that has not by then, with its addresses and what to do.
  void connect(std::span<const Rank> to, std::span<const Rank> from, TimePoint deadline);

  // Throws InternalError for a rank that is not there or is this one. What is sent to a rank that
  // is gone vanishes.
  void send(Rank to, std::span<const std::byte> message) override;
  std::optional<Message> poll() override;
  std::optional<Duration> poll_interval() const override;
  std::optional<Duration> prepare_sleep() override;
  Doorbell& doorbell() noexcept override { return doorbell_; }
  void abort(const Status& why) noexcept override;

  // For the TcpLink that tensors go over, which the coordinator's thread uses too. open_data()
  // makes a connection on which this rank sends, once per rank; the doorbell rings when there is
  // something to take.
  void open_data(Rank to);
  std::deque<TcpNetwork::Data> take_data();
  // A connection has ended while it was used: its rank is lost. `why`: "" if the peer closed it.
  void data_broke(Rank rank, const std::string& why);
  // `descriptor`, an epoll's, is readable when there is something to poll: arm() has the doorbell
  // rung then, or now, once.
  void watch(int descriptor);
  void arm(int descriptor) noexcept;
  void forget(int descriptor) noexcept;

 private:
  void run();
  // False once stop_.
  bool serve_once();
  // By the polling thread or its own. poll() and connect() report what it cannot recover from.
  void serve() HVD_REQUIRES(mutex_);
  void arm_network() noexcept;
  void arm(int descriptor, std::uint64_t source) noexcept;
  void throw_if_broken() HVD_REQUIRES(mutex_);
  void wake() noexcept;
  // After the network was touched from outside the thread that serves it.
  void after_call() HVD_REQUIRES(mutex_);
  void report_events() HVD_REQUIRES(mutex_);

  const Duration link_timeout_;
  DoorbellState own_bell_;
  DoorbellState& bell_;
  Doorbell doorbell_;
  UniqueFd wake_;
  UniqueFd sources_;  // an epoll: all that the thread waits for

  Mutex mutex_;
  std::condition_variable_any changed_;
  TcpNetwork network_ HVD_GUARDED_BY(mutex_);
  const int network_descriptor_;
  TimePoint wakes_at_ HVD_GUARDED_BY(mutex_) = TimePoint::max();
  bool stop_ HVD_GUARDED_BY(mutex_) = false;
  std::exception_ptr broken_ HVD_GUARDED_BY(mutex_);  // it cannot go on after this
  std::size_t waiting_ HVD_GUARDED_BY(mutex_) = 0;    // events for poll(), when it was last rung
  std::atomic<bool> polled_{false};                   // since the thread looked last
  std::atomic<bool> armed_{true};  // the thread wakes when the network has something
  std::atomic<std::size_t> data_waiting_{0};
  std::thread thread_;  // last: it uses the rest
};

// This rank's control plane to the ranks of other hosts, connected to its neighbours in the tree
// (core/base/topology.h). All ranks of the world call it; either it succeeds on all of them, or
// all throw what the first one met: UnsupportedError when it could not listen on the interfaces
// that `config` names, StalledError when two could not connect by the deadline. `bell` as
// TcpControlPlane has it.
//
// The key of the connections is made of what rank 0 draws, which travels over `others`, and of
// their secret(), which does not; without one the connections are as safe as what the texts go
// over.
std::unique_ptr<TcpControlPlane> connect_hosts(Rendezvous& others, const Placement& placement,
                                               const Config& config, DoorbellState* bell,
                                               TimePoint deadline);

}  // namespace hvd::engine
