#pragma once

#include <memory>
#include <utility>

#include "core/ports/control_plane.h"

namespace hvd::engine {

// A control plane made of two others: `local` serves the ranks of this host, `remote` all the
// others. It sleeps on the local one's doorbell.
class HierControlPlane final : public ControlPlane {
 public:
  // Both know the whole world's topology. `remote` rings the doorbell of `local` or has an interval
  // in which it is polled.
  HierControlPlane(std::unique_ptr<ControlPlane> local, std::unique_ptr<ControlPlane> remote)
      : ControlPlane(remote->placement()), local_(std::move(local)), remote_(std::move(remote)) {}

  void send(Rank to, std::span<const std::byte> message) override {
    (placement_.is_local(to) ? *local_ : *remote_).send(to, message);
  }
  std::optional<Message> poll() override {
    remote_first_ = !remote_first_;
    ControlPlane& first = remote_first_ ? *remote_ : *local_;
    ControlPlane& second = remote_first_ ? *local_ : *remote_;
    if (auto message = first.poll()) return message;
    return second.poll();
  }
  void reuse(Bytes&& read) noexcept override { local_->reuse(std::move(read)); }
  Doorbell& doorbell() noexcept override { return local_->doorbell(); }
  std::optional<Duration> poll_interval() const override {
    return earlier(local_->poll_interval(), remote_->poll_interval());
  }
  std::optional<Duration> prepare_sleep() override {
    return earlier(local_->prepare_sleep(), remote_->prepare_sleep());
  }
  void job_failed() noexcept override {
    local_->job_failed();
    remote_->job_failed();
  }
  void abort(const Status& why) noexcept override {
    local_->abort(why);
    remote_->abort(why);
    doorbell().ring();
  }

 private:
  std::unique_ptr<ControlPlane> local_;
  std::unique_ptr<ControlPlane> remote_;
  bool remote_first_ = false;  // they take turns
};

}  // namespace hvd::engine
