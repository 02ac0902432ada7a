#include "core/runtime/notifier.h"

#include <atomic>
#include <utility>

#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/config/log.h"

namespace hvd::engine {

struct Notifier::Shared {
  explicit Shared(Doorbell& doorbell) : bell(&doorbell) {}

  Doorbell* const bell;
  Mutex mutex;
  // Shared, so that the coordinator never copies or destroys what belongs to the user.
  std::shared_ptr<const std::function<std::string()>> where HVD_GUARDED_BY(mutex);
  std::shared_ptr<const std::function<void(const std::string&)>> on_stall HVD_GUARDED_BY(mutex);
  std::optional<std::string> answer HVD_GUARDED_BY(mutex);
  std::atomic<bool> answered{false};  // written under the mutex, may be read without it
  bool requested HVD_GUARDED_BY(mutex) = false;
  std::atomic<bool> stop{false};  // written under the mutex, may be read without it

  void put(std::string text) {
    const MutexLock lock(mutex);
    answer = std::move(text);
    answered = true;
    requested = false;
    if (!stop) bell->ring();  // under the mutex: who set `stop` may let the bell die
  }
};

Notifier::Notifier(Doorbell& bell) : shared_(std::make_shared<Shared>(bell)) {}

Notifier::~Notifier() {
  const MutexLock lock(shared_->mutex);
  shared_->stop = true;
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
  const MutexLock lock(shared_->mutex);
  if (shared_->where == nullptr || *shared_->where == nullptr || shared_->requested) return false;
  shared_->requested = true;
  calls_.push([shared = shared_, where = shared_->where] {
    if (shared->stop) return;
    std::string text;
    try {
      text = (*where)();
    } catch (...) {
      log(LogLevel::kWarning, "asking where the program is: " + current_status().message());
    }
    shared->put(std::move(text));
  });
  return true;
}

std::optional<std::string> Notifier::take_location() {
  if (!shared_->answered) return std::nullopt;
  const MutexLock lock(shared_->mutex);
  shared_->answered = false;
  return std::exchange(shared_->answer, std::nullopt);
}

void Notifier::report(const std::string& text) {
  const MutexLock lock(shared_->mutex);
  if (shared_->on_stall == nullptr || *shared_->on_stall == nullptr) return;
  calls_.push([shared = shared_, tell = shared_->on_stall, text] {
    if (shared->stop) return;
    try {
      (*tell)(text);
    } catch (...) {
      log(LogLevel::kWarning, "reporting a stall: " + current_status().message());
    }
  });
}

}  // namespace hvd::engine
