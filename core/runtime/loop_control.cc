#include "core/runtime/loop_control.h"

#include <utility>

#include "core/system/interruptible_waits.h"

namespace hvd::engine {

void LoopControl::post(std::function<void()> command) {
  {
    const MutexLock lock(mutex_);
    commands_.push_back(std::move(command));
  }
  any_command_.store(true, std::memory_order_release);
  wake();
}

void LoopControl::run_commands() {
  if (!any_command_.load(std::memory_order_acquire)) return;
  any_command_.store(false, std::memory_order_relaxed);
  std::vector<std::function<void()>> commands;
  {
    const MutexLock lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands) command();
}

void LoopControl::leave() noexcept {
  leave_asked_ = true;
  wake();
}

void LoopControl::end() noexcept {
  ended_ = true;
  end_bell_.ring();
}

bool LoopControl::wait_for_end(Duration limit, bool interruptible) noexcept {
  auto turns = turns_.load();
  for (TimePoint stuck = Clock::now() + limit;;) {
    const auto seen = end_bell_.rings();
    if (ended_) return true;
    const bool interrupted = InterruptibleWaits::ended();
    if (const auto now = turns_.load(); now != turns && !interrupted) {
      turns = now;
      stuck = Clock::now() + limit;
    }
    if (Clock::now() >= stuck || (interrupted && interruptible)) return false;
    end_bell_.wait_until(seen, InterruptibleWaits::look_before(stuck));
  }
}

}  // namespace hvd::engine
