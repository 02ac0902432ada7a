#include "ops/hier/hier_control_plane.h"

#include <algorithm>

namespace hvd {

HierControlPlane::HierControlPlane(std::unique_ptr<ControlPlane> local,
                                   std::unique_ptr<ControlPlane> remote)
    : local_(std::move(local)), remote_(std::move(remote)) {}

bool HierControlPlane::is_local(Rank rank) const noexcept {
  const std::vector<int>& hosts = remote_->host_of();
  return hosts[static_cast<std::size_t>(rank)] ==
         hosts[static_cast<std::size_t>(remote_->topology().rank)];
}

void HierControlPlane::send(Rank to, std::span<const std::byte> message) {
  (is_local(to) ? *local_ : *remote_).send(to, message);
}

std::optional<Duration> HierControlPlane::poll_interval() const {
  const auto local = local_->poll_interval();
  const auto remote = remote_->poll_interval();
  return local && remote ? std::min(*local, *remote) : (local ? local : remote);
}

std::optional<Message> HierControlPlane::poll() {
  remote_first_ = !remote_first_;
  ControlPlane& first = remote_first_ ? *remote_ : *local_;
  ControlPlane& second = remote_first_ ? *local_ : *remote_;
  if (auto message = first.poll()) return message;
  return second.poll();
}

void HierControlPlane::job_failed() noexcept {
  local_->job_failed();
  remote_->job_failed();
}

void HierControlPlane::abort(const Status& why) noexcept {
  local_->abort(why);
  remote_->abort(why);
  doorbell().ring();
}

}  // namespace hvd
