#include "core/negotiate/stall/parent_watch.h"

#include <utility>

namespace hvd {

ParentWatch::Finding ParentWatch::check(TimePoint now, bool waits) {
  if (std::exchange(heard_, false) || !waits || !since_) {
    since_ = waits ? std::optional(now) : std::nullopt;
    asked_ = false;
    return Finding::kNone;
  }
  const auto due = next_check();
  if (!due || now < *due) return Finding::kNone;
  if (asked_) return Finding::kSilent;
  asked_ = true;
  since_ = now;
  return Finding::kAsk;
}

std::optional<TimePoint> ParentWatch::next_check() const {
  if (limit_ == Duration::zero()) return std::nullopt;
  if (!since_) return TimePoint{};
  return *since_ + (asked_ ? limit_ / 4 : limit_);
}

}  // namespace hvd
