#include "core/system/interruptible_waits.h"

#include <algorithm>

namespace hvd::engine {
namespace {

constexpr Duration kBetweenLooks = std::chrono::milliseconds(100);

thread_local InterruptibleWaits* innermost = nullptr;

}  // namespace

InterruptibleWaits::InterruptibleWaits(Check check) noexcept : check_(check), outer_(innermost) {
  innermost = this;
}

InterruptibleWaits::~InterruptibleWaits() {
  innermost = outer_;
}

TimePoint InterruptibleWaits::look_before(TimePoint deadline) noexcept {
  if (innermost == nullptr) return deadline;
  TimePoint& next = innermost->next_look_;
  if (next == TimePoint::max()) next = Clock::now() + kBetweenLooks;
  return std::min(deadline, next);
}

bool InterruptibleWaits::ended() noexcept {
  InterruptibleWaits* const scope = innermost;
  if (scope == nullptr) return false;
  if (scope->interruption_ != nullptr) return true;
  if (Clock::now() < look_before(TimePoint::max())) return false;
  scope->next_look_ = TimePoint::max();
  try {
    scope->check_();
  } catch (...) {
    scope->interruption_ = std::current_exception();
  }
  return scope->interruption_ != nullptr;
}

void InterruptibleWaits::look() {
  if (ended()) std::rethrow_exception(innermost->interruption_);
}

}  // namespace hvd::engine
