#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

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

  std::vector<Handle> submit(std::vector<Submission> submissions) override;
  // A coordinator that is stuck inside a port is abandoned: its handles fail here, and it keeps
  // itself and its ports alive until it comes back.
  void shutdown() override;
  Status stopped() const override { return coordinator_->table().closed(); }

 private:
  std::shared_ptr<Coordinator> coordinator_;
  std::atomic<bool> abandoned_{false};
  std::thread thread_;
};

}  // namespace hvd
