#include "core/runtime/notifier.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <utility>

#include "core/base/clock.h"
#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/config/log.h"
#include "core/system/engine_thread.h"

namespace hvd {

struct Notifier::Shared {
  using Task = std::function<void(Shared&)>;

  explicit Shared(Doorbell& doorbell) : bell(&doorbell) {}

  Doorbell* const bell;
  Mutex mutex;
  std::condition_variable_any changed;
  // Shared, so that the coordinator never copies or destroys what belongs to the user.
  std::shared_ptr<const std::function<std::string()>> where HVD_GUARDED_BY(mutex);
  std::shared_ptr<const std::function<void(const std::string&)>> on_stall HVD_GUARDED_BY(mutex);
  std::deque<Task> tasks HVD_GUARDED_BY(mutex);
  std::optional<std::string> answer HVD_GUARDED_BY(mutex);
  std::atomic<bool> answered{false};  // written under the mutex, may be read without it
  bool requested HVD_GUARDED_BY(mutex) = false;
  bool stop HVD_GUARDED_BY(mutex) = false;
  bool gone HVD_GUARDED_BY(mutex) = false;

  void push(Task task) HVD_REQUIRES(mutex) {
    tasks.push_back(std::move(task));
    changed.notify_all();
  }

  // False when the thread shall end.
  bool take(Task& task) {
    const MutexLock lock(mutex);
    while (tasks.empty() && !stop) changed.wait(mutex);
    if (stop) return false;
    task = std::move(tasks.front());
    tasks.pop_front();
    return true;
  }

  // The thread has ended, maybe inside a task.
  void leave() {
    const MutexLock lock(mutex);
    gone = true;
    changed.notify_all();
  }

  void put(std::string text) {
    const MutexLock lock(mutex);
    answer = std::move(text);
    answered = true;
    requested = false;
    if (!stop) bell->ring();  // under the mutex: who set `stop` may let the bell die
  }

  bool wait_until_gone() {
    const TimePoint deadline = Clock::now() + kThreadEndLimit;
    const MutexLock lock(mutex);
    while (!gone) {
      if (changed.wait_until(mutex, deadline) == std::cv_status::timeout) return gone;
    }
    return true;
  }
};

Notifier::Notifier(Doorbell& bell) : shared_(std::make_shared<Shared>(bell)) {}

Notifier::~Notifier() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(shared_->mutex);
    shared_->stop = true;
    shared_->changed.notify_all();
  }
  if (shared_->wait_until_gone()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Notifier::set_location_callback(std::function<std::string()> where) {
  auto next = std::make_shared<const std::function<std::string()>>(std::move(where));
  const MutexLock lock(shared_->mutex);
  shared_->where.swap(next);
}

void Notifier::on_stall(std::function<void(const std::string&)> report) {
  auto next = std::make_shared<const std::function<void(const std::string&)>>(std::move(report));
  const MutexLock lock(shared_->mutex);
  shared_->on_stall.swap(next);
}

bool Notifier::request_location() {
  {
    const MutexLock lock(shared_->mutex);
    if (shared_->where == nullptr || *shared_->where == nullptr || shared_->requested) return false;
    shared_->requested = true;
    shared_->push([where = shared_->where](Shared& shared) {
      std::string text;
      try {
        text = (*where)();
      } catch (...) {
        log(LogLevel::kWarning, "asking where the program is: " + current_status().message());
      }
      shared.put(std::move(text));
    });
  }
  start();
  return true;
}

std::optional<std::string> Notifier::take_location() {
  if (!shared_->answered) return std::nullopt;
  const MutexLock lock(shared_->mutex);
  shared_->answered = false;
  return std::exchange(shared_->answer, std::nullopt);
}

void Notifier::report(const std::string& text) {
  {
    const MutexLock lock(shared_->mutex);
    if (shared_->on_stall == nullptr || *shared_->on_stall == nullptr) return;
    shared_->push([tell = shared_->on_stall, text](Shared&) {
      try {
        (*tell)(text);
      } catch (...) {
        log(LogLevel::kWarning, "reporting a stall: " + current_status().message());
      }
    });
  }
  start();
}

void Notifier::start() {
  if (thread_.joinable()) return;
  thread_ = start_engine_thread([shared = shared_] {
    const std::unique_ptr<Shared, void (*)(Shared*)> leaves(shared.get(),
                                                            [](Shared* each) { each->leave(); });
    for (Shared::Task task; shared->take(task); task = nullptr) task(*shared);
  });
}

}  // namespace hvd
