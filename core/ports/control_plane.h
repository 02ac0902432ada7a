#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/doorbell.h"
#include "core/ports/rendezvous.h"

namespace hvd::engine {

// A control message that arrived.
struct Message {
  Rank from = 0;
  Bytes bytes;
};

// Port: how ranks talk. Small messages, host memory. All calls except doorbell().ring() and abort()
// come from the coordinator thread; no call waits for another rank.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;

  const Placement& placement() const noexcept { return placement_; }
  const Topology& topology() const noexcept { return topology_; }
  // The number of each rank's host, numbered from 0 in the order of their lowest ranks.
  const std::vector<int>& host_of() const noexcept { return placement_.host_of; }
  // The name of a rank's host, for messages to people.
  const std::string& host_name(Rank rank) const { return placement_.host_name(rank); }

  // Queues a message. Messages to one rank arrive in order, complete, once.
  virtual void send(Rank to, std::span<const std::byte> message) = 0;
  // The next message, if one is here. Throws PeerLostError naming a peer that is gone, once per
  // peer.
  virtual std::optional<Message> poll() = 0;
  // The storage of a message that was read, for those that follow.
  virtual void reuse(Bytes&& /*read*/) noexcept {}
  // Everything that can make poll() or an Operation progress rings this, except what says that it
  // wants to be polled.
  virtual Doorbell& doorbell() noexcept = 0;
  // How soon to poll again without a ring; empty = only when rung. Control planes that cannot
  // ring (MPI between hosts) answer a back-off of at most 100 us.
  virtual std::optional<Duration> poll_interval() const { return std::nullopt; }
  // The loop is about to sleep until it is rung: what rings only while no thread polls begins to,
  // also for what happened since the last poll(). Returns how soon to poll all the same.
  virtual std::optional<Duration> prepare_sleep() { return poll_interval(); }
  // The job has failed: a destructor that delivers what is queued waits for kErrorFlushLimit at
  // most.
  virtual void job_failed() noexcept {}
  // Fails this rank's links: peers see this rank as gone. Any thread; for failures only.
  virtual void abort(const Status& why) noexcept = 0;

 protected:
  explicit ControlPlane(Placement placement)
      : placement_(std::move(placement)), topology_(topology_of(placement_)) {}

  const Placement placement_;
  const Topology topology_;
};

// Thrown by ControlPlane::poll() so that the coordinator knows who is gone.
class LostRankError : public PeerLostError {
 public:
  LostRankError(Rank rank, const std::string& message) : PeerLostError(message), rank_(rank) {}
  Rank rank() const noexcept { return rank_; }

 private:
  Rank rank_;
};

}  // namespace hvd::engine
