#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "core/runtime/coordinator.h"
#include "core/runtime/engine.h"

namespace hvd {

// A rank among others: a coordinator and its thread.
class ThreadedEngine final : public Engine {
 public:
  explicit ThreadedEngine(std::shared_ptr<Coordinator> coordinator);
  ~ThreadedEngine() override;
  ThreadedEngine(const ThreadedEngine&) = delete;
  ThreadedEngine& operator=(const ThreadedEngine&) = delete;

  void submit(std::span<Submission> submissions, std::span<Handle> handles) override;
  Handle submit(PointToPoint transfer) override;
  const SetRegistry& sets() const override { return coordinator_->sets(); }
  void expect_wait_for_root(Duration wait) override { coordinator_->expect_wait_for_root(wait); }
  void change_settings(std::function<void(NegotiationSettings&)> change) override {
    coordinator_->change_settings(std::move(change));
  }
  void on_look(std::function<std::string()> where) override {
    coordinator_->notifier().on_look(std::move(where));
  }
  void on_stall(std::function<void(const std::string&)> report) override {
    coordinator_->notifier().on_stall(std::move(report));
  }
  // A coordinator that is stuck inside a port is abandoned: its handles fail here, and it keeps
  // itself and its ports alive until it comes back.
  void shutdown() override;
  Status stopped() const override { return coordinator_->table().closed(); }
  bool ended_in_error() const override { return coordinator_->ended_in_error(); }

 private:
  std::shared_ptr<Coordinator> coordinator_;
  std::atomic<bool> abandoned_{false};
  std::thread thread_;
};

}  // namespace hvd
