#include "core/runtime/completion_thread.h"

#include <condition_variable>
#include <deque>
#include <utility>

#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/system/engine_thread.h"
#include "core/system/process.h"

namespace hvd::engine {

struct CompletionThread::Shared {
  struct Waiting {
    std::unique_ptr<Batch> batch;
    Fence fence;
    bool aborted = false;
  };

  Shared(std::function<void(Batch&)> when_reached, Doorbell& doorbell)
      : reached(std::move(when_reached)), bell(&doorbell) {}
  // Batches kept alive for the detached thread. What they use may be gone.
  ~Shared() {
    for (Waiting& each : waiting) leak_until_exit(std::move(each.batch));
    for (Ended& each : ended) leak_until_exit(std::move(each.batch));
  }

  const std::function<void(Batch&)> reached;
  Doorbell* const bell;
  Mutex mutex;
  std::condition_variable_any changed;
  std::deque<Waiting> waiting HVD_GUARDED_BY(mutex);
  std::deque<Ended> ended HVD_GUARDED_BY(mutex);
  bool busy HVD_GUARDED_BY(mutex) = false;
  bool ending HVD_GUARDED_BY(mutex) = false;  // `reached` runs
  bool stop HVD_GUARDED_BY(mutex) = false;
  bool gone HVD_GUARDED_BY(mutex) = false;

  // False when the thread should end.
  bool take(Waiting& next) {
    const MutexLock lock(mutex);
    while (waiting.empty() && !stop) changed.wait(mutex);
    if (stop) {
      gone = true;
      changed.notify_all();
      return false;
    }
    next = std::move(waiting.front());
    waiting.pop_front();
    busy = true;
    return true;
  }

  // The owner of this detached thread is gone, and so is what `reached` needs.
  bool may_end() {
    const MutexLock lock(mutex);
    ending = !stop;
    return ending;
  }

  void end(Waiting& next) {
    next.fence.wait();
    if (!next.aborted && may_end()) reached(*next.batch);
  }

  void put(Ended done) {
    const MutexLock lock(mutex);
    ended.push_back(std::move(done));
    busy = false;
    ending = false;
    changed.notify_all();
    if (!stop) bell->ring();  // under the mutex: who set `stop` may let the bell die
  }

  void wait_until_ended() {
    const MutexLock lock(mutex);
    while (ending) changed.wait(mutex);
  }

  bool is_gone() const HVD_REQUIRES(mutex) { return gone; }
  bool is_idle() const HVD_REQUIRES(mutex) { return waiting.empty() && !busy; }

  bool wait_for(Duration limit, bool (Shared::*condition)() const) {
    const TimePoint deadline = Clock::now() + limit;
    const MutexLock lock(mutex);
    while (!(this->*condition)()) {
      if (changed.wait_until(mutex, deadline) == std::cv_status::timeout) {
        return (this->*condition)();
      }
    }
    return true;
  }
};

CompletionThread::CompletionThread(std::function<void(Batch&)> reached, Doorbell& bell)
    : shared_(std::make_shared<Shared>(std::move(reached), bell)) {}

CompletionThread::~CompletionThread() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(shared_->mutex);
    shared_->stop = true;
    shared_->changed.notify_all();
  }
  if (shared_->wait_for(kThreadEndLimit, &Shared::is_gone)) {
    thread_.join();
  } else {
    shared_->wait_until_ended();  // it waits for no other thread
    thread_.detach();
  }
}

void CompletionThread::add(std::unique_ptr<Batch> batch, Fence fence) {
  push(std::move(batch), std::move(fence), false);
}

void CompletionThread::add_aborted(std::unique_ptr<Batch> batch, Fence fence) {
  push(std::move(batch), std::move(fence), true);
}

void CompletionThread::push(std::unique_ptr<Batch> batch, Fence fence, bool aborted) {
  ++added_;
  {
    const MutexLock lock(shared_->mutex);
    shared_->waiting.push_back({std::move(batch), std::move(fence), aborted});
    shared_->changed.notify_all();
  }
  if (thread_.joinable()) return;
  thread_ = start_engine_thread([shared = shared_] {
    for (Shared::Waiting next; shared->take(next);) {
      Status status;
      try {
        shared->end(next);
      } catch (...) {
        status = current_status();
      }
      shared->put({std::move(next.batch), std::move(status), std::move(next.fence)});
    }
  });
}

std::optional<CompletionThread::Ended> CompletionThread::next_ended() {
  if (added_ == 0) return std::nullopt;
  const MutexLock lock(shared_->mutex);
  if (shared_->ended.empty()) return std::nullopt;
  Ended ended = std::move(shared_->ended.front());
  shared_->ended.pop_front();
  --added_;
  return ended;
}

bool CompletionThread::drain(Duration limit) {
  return shared_->wait_for(limit, &Shared::is_idle);
}

}  // namespace hvd::engine
