#include "core/runtime/callback_queue.h"

#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/config/log.h"
#include "core/system/engine_thread.h"

namespace hvd::engine {

struct CallbackQueue::Shared {
  using Callback = std::function<void()>;

  Mutex mutex;
  std::condition_variable_any changed;
  std::deque<Callback> callbacks HVD_GUARDED_BY(mutex);
  std::thread::id thread HVD_GUARDED_BY(mutex);  // that calls them; none = no thread does
  bool stop HVD_GUARDED_BY(mutex) = false;

  // Detached: waiting for it is done through `thread`, with a limit.
  static void start(const std::shared_ptr<Shared>& shared) HVD_REQUIRES(shared->mutex) {
    std::thread thread = start_engine_thread([shared] { run(shared); });
    shared->thread = thread.get_id();
    thread.detach();
  }

  static void run(const std::shared_ptr<Shared>& shared) {
    struct Leaves {
      const std::shared_ptr<Shared>& shared;
      ~Leaves() { leave(shared); }  // as well if user code ends its thread
    } const leaves{shared};
    for (Callback callback; shared->take(callback); callback = nullptr) {
      try {
        callback();
      } catch (...) {
        log(LogLevel::kWarning, "a callback failed: " + current_status().message());
      }
    }
  }

  static void leave(const std::shared_ptr<Shared>& shared) {
    const MutexLock lock(shared->mutex);
    shared->thread = {};
    if (!shared->callbacks.empty()) start(shared);
    shared->changed.notify_all();
  }

  // False when the thread should end.
  bool take(Callback& callback) {
    const MutexLock lock(mutex);
    while (callbacks.empty() && !stop) changed.wait(mutex);
    if (callbacks.empty()) return false;
    callback = std::move(callbacks.front());
    callbacks.pop_front();
    return true;
  }
};

CallbackQueue::CallbackQueue() : shared_(std::make_shared<Shared>()) {}

CallbackQueue::~CallbackQueue() {
  const TimePoint deadline = Clock::now() + kThreadEndLimit;
  const MutexLock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  while (shared_->thread != std::thread::id() && shared_->thread != std::this_thread::get_id()) {
    if (shared_->changed.wait_until(shared_->mutex, deadline) == std::cv_status::timeout) return;
  }
}

// Not under the mutex, which a thread that is woken on this core would find taken, and sleep again.
void CallbackQueue::push(std::function<void()> callback) {
  const std::shared_ptr<Shared> shared = shared_;
  {
    const MutexLock lock(shared->mutex);
    shared->callbacks.push_back(std::move(callback));
    if (shared->thread == std::thread::id()) return Shared::start(shared);
    if (shared->callbacks.size() > 1) return;  // who put the first one wakes the thread
  }
  shared->changed.notify_all();
}

}  // namespace hvd::engine
