#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/ports/control_plane.h"

namespace hvd::engine::test {

// Where a thread can be held up inside a port.
class Gate {
 public:
  void close() {
    set([this] { open_ = false; });
  }
  void open() {
    set([this] { open_ = true; });
  }
  void destroyed() {
    set([this] { destroyed_ = true; });
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++passes_;
    visited_ = visited_ || !open_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void wait_for_visitor() {
    wait([this] { return visited_; });
  }
  void wait_until_destroyed() {
    wait([this] { return destroyed_; });
  }
  int passes() {
    const std::lock_guard lock(mutex_);
    return passes_;
  }

 private:
  template <typename Change>
  void set(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <typename Condition>
  void wait(Condition condition) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(30), condition)) {
      throw std::runtime_error("nothing happened at the gate for 30 s");
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  bool visited_ = false;
  bool destroyed_ = false;
  int passes_ = 0;
};

// A real control plane whose poll() passes a gate.
class GatedControlPlane final : public ControlPlane {
 public:
  GatedControlPlane(std::unique_ptr<ControlPlane> inner, std::shared_ptr<Gate> gate)
      : ControlPlane(inner->placement()), inner_(std::move(inner)), gate_(std::move(gate)) {}
  ~GatedControlPlane() override { gate_->destroyed(); }

  void send(Rank to, std::span<const std::byte> message) override { inner_->send(to, message); }
  std::optional<Message> poll() override {
    gate_->pass();
    return inner_->poll();
  }
  Doorbell& doorbell() noexcept override { return inner_->doorbell(); }
  void job_failed() noexcept override { inner_->job_failed(); }
  void abort(const Status& why) noexcept override { inner_->abort(why); }

 private:
  std::unique_ptr<ControlPlane> inner_;
  std::shared_ptr<Gate> gate_;
};

}  // namespace hvd::engine::test
