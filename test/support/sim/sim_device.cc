#include "test/support/sim/sim_device.h"

#include <exception>
#include <utility>

#include "core/base/status.h"
#include "core/system/engine_thread.h"

namespace hvd::engine {

class SimDevice::FenceState final : public Fence::State {
 public:
  bool reached() override {
    const MutexLock lock(mutex_);
    return done_;
  }
  void wait() override {
    const MutexLock lock(mutex_);
    while (!done_) changed_.wait(mutex_);
    error_.throw_if_error();
  }
  void finish(const Status& error) {
    const MutexLock lock(mutex_);
    done_ = true;
    error_ = error;
    changed_.notify_all();
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool done_ HVD_GUARDED_BY(mutex_) = false;
  Status error_ HVD_GUARDED_BY(mutex_);
};

SimDevice::SimDevice() : thread_(start_engine_thread([this] { loop(); })) {}

SimDevice::~SimDevice() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void SimDevice::enqueue(std::function<void()> task) {
  push({std::move(task), nullptr});
}

Fence SimDevice::fence() {
  auto state = std::make_shared<FenceState>();
  push({nullptr, state});
  return Fence(state);
}

void SimDevice::push(Task task) {
  const MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void SimDevice::loop() {
  Status broken;
  for (;;) {
    Task task;
    {
      const MutexLock lock(mutex_);
      while (tasks_.empty() && !stop_) changed_.wait(mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      if (stop_ && broken.ok()) broken = {StatusCode::kAborted, "the device was closed"};
    }
    if (task.fence != nullptr) {
      task.fence->finish(broken);
      continue;
    }
    if (!broken.ok()) continue;
    try {
      task.run();
    } catch (const Error& error) {
      broken = error.status();
    }
  }
}

}  // namespace hvd::engine
