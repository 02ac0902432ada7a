#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "core/base/thread_annotations.h"
#include "core/ports/fence.h"

namespace hvd::engine {

// The work queue of an asynchronous device: a thread that runs tasks in order. A task that throws
// breaks the device: later tasks are skipped and fences fail.
class SimDevice {
 public:
  SimDevice();
  // Ends after the running task; what is enqueued is skipped.
  ~SimDevice();
  SimDevice(const SimDevice&) = delete;
  SimDevice& operator=(const SimDevice&) = delete;

  void enqueue(std::function<void()> task);
  Fence fence();

 private:
  class FenceState;
  struct Task {
    std::function<void()> run;  // one of the two
    std::shared_ptr<FenceState> fence;
  };

  void loop();
  void push(Task task);

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Task> tasks_ HVD_GUARDED_BY(mutex_);
  bool stop_ HVD_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace hvd::engine
