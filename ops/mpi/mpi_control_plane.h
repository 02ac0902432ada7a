#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/base/deadlines.h"
#include "core/ports/control_plane.h"
#include "core/ports/rendezvous.h"
#include "ops/mpi/messages.h"

namespace hvd {

// Ranks of several hosts talk by MPI messages, where TCP does not connect them. MPI rings nobody,
// so this is polled with back-off; it cannot see a peer die, only one that says it failed.
class MpiControlPlane final : public ControlPlane {
 public:
  // Serves the ranks that `peers` lists.
  MpiControlPlane(std::shared_ptr<MpiCommunicator> communicator, Placement placement,
                  std::vector<Rank> peers);
  // Gives what is still on its way one second to leave.
  ~MpiControlPlane() override;

  Topology topology() const noexcept override { return topology_; }
  const std::vector<int>& host_of() const noexcept override { return placement_.host_of; }
  std::string host_name(Rank rank) const override { return placement_.host_name(rank); }
  void send(Rank to, std::span<const std::byte> message) override;
  std::optional<Message> poll() override;
  Doorbell& doorbell() noexcept override { return doorbell_; }
  std::optional<Duration> poll_interval() const override;
  void job_failed() noexcept override { flush_limit_ = kErrorFlushLimit; }
  void abort(const Status& why) noexcept override;

 private:
  void tell_failure() noexcept;

  Placement placement_;
  Topology topology_;
  std::vector<Rank> peers_;
  std::shared_ptr<MpiCommunicator> communicator_;
  MpiOutbox outbox_;
  MpiOutbox failure_notices_;  // of the thread that calls abort()
  MpiInbox inbox_;

  Duration flush_limit_ = kFlushLimit;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> failure_pending_{false};  // reason_ is set and not told yet
  std::string reason_;

  DoorbellState bell_;
  Doorbell doorbell_{bell_};
};

}  // namespace hvd
