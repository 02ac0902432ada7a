#include "core/negotiate/stall/stall_monitor.h"

#include <algorithm>
#include <utility>

namespace hvd::engine {

void StallMonitor::set_limits(Duration warning, Duration limit) {
  warning_ = warning;
  limit_ = limit;
  scale_ = warning > Duration::zero() ? warning : limit;
  if (limit > Duration::zero()) scale_ = std::min(scale_, limit);
  next_check_ = {};
}

std::optional<TimePoint> StallMonitor::next_check() const {
  if (scale_ == Duration::zero()) return std::nullopt;
  return next_check_;
}

StallFindings StallMonitor::check(TimePoint now, std::span<const Waiting> waiting) {
  StallFindings findings;
  std::map<std::uint64_t, Watch> still;
  for (const Waiting& one : waiting) {
    const auto known = watches_.find(one.round);
    Watch watch = known == watches_.end() ? Watch{now} : known->second;
    watch.since = std::min(watch.since, now - one.held);
    look(one, watch, now, findings);
    still.emplace(one.round, watch);
  }
  watches_ = std::move(still);
  next_check_ = now + scale_ / 8;
  return findings;
}

void StallMonitor::look(const Waiting& waiting, Watch& watch, TimePoint now,
                        StallFindings& findings) const {
  const Duration held = now - watch.since;
  if (held < scale_ / 4) return;
  const Waiting found{waiting.name, waiting.round, held};
  findings.held.push_back(found);
  // Divided, not multiplied: limits that came in a message may be as long as they like.
  if (held >= scale_ / 2 && (held - scale_ / 2) / scale_ >= watch.asks) {
    watch.asks = (held - scale_ / 2) / scale_ + 1;
    findings.ask = true;
  }
  if (warning_ > Duration::zero() && held / warning_ > watch.warnings) {
    watch.warnings = held / warning_;
    findings.overdue.push_back(found);
  }
  const bool hopeless = limit_ > Duration::zero() && held >= limit_;
  if (hopeless && !findings.hopeless) findings.hopeless = found;
}

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

}  // namespace hvd::engine
