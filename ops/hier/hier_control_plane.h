#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ports/control_plane.h"

namespace hvd {

// A control plane made of two others: `local` serves the ranks of this host, `remote` all the
// others. It sleeps on the local one's doorbell.
class HierControlPlane final : public ControlPlane {
 public:
  // Both know the whole world's topology. `remote` rings the doorbell of `local` or has an interval
  // in which it is polled.
  HierControlPlane(std::unique_ptr<ControlPlane> local, std::unique_ptr<ControlPlane> remote);

  Topology topology() const noexcept override { return remote_->topology(); }
  const std::vector<int>& host_of() const noexcept override { return remote_->host_of(); }
  std::string host_name(Rank rank) const override { return remote_->host_name(rank); }
  void send(Rank to, std::span<const std::byte> message) override;
  std::optional<Message> poll() override;
  Doorbell& doorbell() noexcept override { return local_->doorbell(); }
  std::optional<Duration> poll_interval() const override;
  void job_failed() noexcept override;
  void abort(const Status& why) noexcept override;

 private:
  bool is_local(Rank rank) const noexcept;

  std::unique_ptr<ControlPlane> local_;
  std::unique_ptr<ControlPlane> remote_;
  bool remote_first_ = false;  // they take turns
};

}  // namespace hvd
