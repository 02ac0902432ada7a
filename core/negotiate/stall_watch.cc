#include "core/negotiate/stall_watch.h"

#include <algorithm>

#include "core/base/clock.h"

namespace hvd::engine {
namespace {

Duration longest_of(const std::vector<Waiting>& waits) {
  Duration longest = Duration::zero();
  for (const Waiting& wait : waits) longest = std::max(longest, wait.held);
  return longest;
}

}  // namespace

StallWatch::StallWatch(const Tree& tree, const ReadinessTracker& readiness, const ProcessSets& sets,
                       const NegotiationSettings& settings)
    : tree_(tree),
      readiness_(readiness),
      sets_(sets),
      settings_(settings),
      diagnosis_(tree, readiness, sets, settings),
      names_(settings.stall_warning, settings.stall_limit),
      batches_(settings.stall_warning, settings.stall_limit),
      joins_(settings.stall_warning, settings.stall_limit),
      parent_(settings.stall_limit) {}

StallWatch::Findings StallWatch::tick(TimePoint now, const Load& load,
                                      std::vector<MissingRanks>& absences) {
  now_ = now;
  diagnosis_.tick(now);
  Findings findings;
  if (!readiness_.idle() && names_.due(now_)) check_names(absences, findings);
  if (watches(load) && batches_.due(now_)) check_batches(load.batches, findings);
  if (root() && sets_.anyone_joined() && joins_.due(now_)) check_joins(findings);
  if (!root()) check_parent(load.waits, findings);
  return findings;
}

std::optional<TimePoint> StallWatch::next_deadline(const Load& load) const {
  std::optional<TimePoint> deadline;
  if (!readiness_.idle()) deadline = names_.next_check();
  if (watches(load)) deadline = earlier(deadline, batches_.next_check());
  if (root() && sets_.anyone_joined()) deadline = earlier(deadline, joins_.next_check());
  if (!root() && load.waits) deadline = earlier(deadline, parent_.next_check());
  return deadline;
}

void StallWatch::set_limits() {
  for (StallMonitor* monitor : {&names_, &batches_, &joins_}) {
    monitor->set_limits(settings_.stall_warning, settings_.stall_limit);
  }
  parent_.set_limit(settings_.stall_limit);
}

void StallWatch::joined(ProcessSetId set) {
  note_progress(set);
  last_reported_missing_.clear();
}

void StallWatch::note_progress(ProcessSetId set) {
  if (!root() || !sets_.anyone_joined()) return;
  if (set >= progress_.size()) progress_.resize(set + std::size_t{1});
  progress_[set] = ++progress_count_;
}

void StallWatch::check_names(std::vector<MissingRanks>& absences, Findings& findings) {
  const StallFindings found = names_.check(now_, diagnosis_.blameable(readiness_.waiting()));
  if (root()) {
    return report(found, findings, [&](const auto& waits) { return diagnosis_.of_names(waits); });
  }
  std::erase_if(last_reported_missing_, [&](const auto& entry) {
    return std::none_of(found.held.begin(), found.held.end(),
                        [&](const Waiting& wait) { return wait.name == entry.first; });
  });
  for (const Waiting& wait : found.held) tell_absence(wait.name, wait.held, absences);
}

void StallWatch::tell_absence(const std::string& name, Duration held,
                              std::vector<MissingRanks>& absences) {
  if (root()) return;
  std::vector<Rank> missing = readiness_.missing(name);
  const auto [told, news] = last_reported_missing_.try_emplace(name);
  if (!news && told->second == missing) return;
  absences.push_back({readiness_.set_of(name).value_or(kWorldSet), name, held, missing});
  told->second = std::move(missing);
}

void StallWatch::check_batches(std::span<const RunningBatch> batches, Findings& findings) {
  std::vector<Waiting> running;
  for (const RunningBatch& batch : batches) {
    running.push_back({batch.first->name, batch.number + 1, Duration::zero()});
  }
  report(batches_.check(now_, running), findings, [&](const std::vector<Waiting>& waits) {
    const Waiting& wait = waits.front();  // batches run in order: the first one holds up the others
    const auto batch = std::find_if(batches.begin(), batches.end(), [&](const RunningBatch& one) {
      return one.number + 1 == wait.round;
    });
    return diagnosis_.of_batch(wait.name, batch->set);
  });
}

// A rank that joined waits for the others, which may take their time as long as something runs.
void StallWatch::check_joins(Findings& findings) {
  std::vector<Waiting> waiting;
  for (ProcessSetId set = 0; set < progress_.size(); ++set) {
    if (!sets_.known(set) || sets_.joined(set) == 0) continue;
    const bool only_root = sets_.expects(set, 0) && sets_.active(set) == 1;
    if (only_root && diagnosis_.expects_root()) continue;
    waiting.push_back({describe_set(set), progress_[set], Duration::zero()});
  }
  report(joins_.check(now_, waiting), findings, [&](const std::vector<Waiting>& waits) {
    const auto progress = std::find(progress_.begin(), progress_.end(), waits.front().round);
    return diagnosis_.of_join(static_cast<ProcessSetId>(progress - progress_.begin()));
  });
}

// Rank 0 finds every other rank that is silent; this finds rank 0.
void StallWatch::check_parent(bool waits, Findings& findings) {
  const ParentWatch::Finding found = parent_.check(now_, waits);
  findings.probe = found == ParentWatch::Finding::kAsk;
  if (found != ParentWatch::Finding::kSilent) return;
  const std::string parent = "rank " + std::to_string(tree_.parent);
  const std::string what =
      tree_.parent == 0 ? "which decides for all" : "through which rank 0 is heard";
  findings.parent_silent = {StatusCode::kStalled, "stalled, giving up: " + parent + ", " + what +
                                                      ", has sent rank " +
                                                      std::to_string(tree_.rank) + " nothing for " +
                                                      seconds_text(settings_.stall_limit) +
                                                      " and does not answer: stopped or gone"};
}

void StallWatch::report(const StallFindings& found, Findings& findings, const auto& describe) {
  if (findings.hopeless) return;
  findings.ask |= found.ask;
  if (!found.overdue.empty()) warn(longest_of(found.overdue), describe(found.overdue), findings);
  if (!found.hopeless) return;
  const StallReport report = describe(std::vector<Waiting>{*found.hopeless});
  findings.hopeless = {StatusCode::kStalled, "stalled, giving up after " +
                                                 seconds_text(found.hopeless->held) + ": " +
                                                 report.what + report.body()};
}

// A report says where all ranks are, so that it serves other waits that become overdue soon after.
void StallWatch::warn(Duration held, const StallReport& report, Findings& findings) {
  std::string body = report.body();
  const bool known = body == last_report_ && !body.empty();
  if (known && now_ < last_report_at_ + settings_.stall_warning / 2) return;
  std::string text = "stalled for " + seconds_text(held) + ": " + report.what;
  text += known ? " (no rank has moved since the last report)" : body;
  last_report_ = std::move(body);
  last_report_at_ = now_;
  findings.reports.push_back(std::move(text));
}

}  // namespace hvd::engine
