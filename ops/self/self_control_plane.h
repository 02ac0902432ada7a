#pragma once

#include "core/ports/control_plane.h"

namespace hvd {

// A world of one rank: there is nobody to talk to.
class SelfControlPlane final : public ControlPlane {
 public:
  explicit SelfControlPlane(std::string host) : host_(std::move(host)) {}

  Topology topology() const noexcept override { return {}; }
  const std::vector<int>& host_of() const noexcept override { return host_of_; }
  std::string host_name(Rank) const override { return host_; }
  // Throws InternalError: no rank of a world of one has a peer.
  void send(Rank to, std::span<const std::byte> message) override;
  std::optional<Message> poll() override { return std::nullopt; }
  Doorbell& doorbell() noexcept override { return doorbell_; }
  void abort(const Status&) noexcept override {}

 private:
  std::string host_;
  std::vector<int> host_of_ = {0};
  DoorbellState state_;
  Doorbell doorbell_{state_};
};

}  // namespace hvd
