// Waits that last too long: what nodes say upwards, and what rank 0 does about them.

#include <algorithm>

#include "core/base/seconds_text.h"
#include "core/negotiate/rank_protocol_impl.h"

namespace hvd {
namespace {

Duration longest_of(const std::vector<Overdue>& waits) {
  Duration longest = Duration::zero();
  for (const Overdue& wait : waits) longest = std::max(longest, wait.held);
  return longest;
}

}  // namespace

void RankProtocol::Impl::tick(TimePoint now) {
  now_ = std::max(now_, now);
  if (stopped_) return;
  if (!tally_.idle() && names_monitor_.due(now_)) check_names();
  if (watches_batches() && batches_monitor_.due(now_)) check_batches();
  if (root() && sets_.anyone_joined() && joins_monitor_.due(now_)) check_joins();
  if (!root()) watch_parent();
}

std::optional<TimePoint> RankProtocol::Impl::next_deadline() const {
  if (stopped_) return std::nullopt;
  std::optional<TimePoint> deadline;
  const auto also = [&](std::optional<TimePoint> other) {
    if (other && (!deadline || *other < *deadline)) deadline = other;
  };
  if (!tally_.idle()) also(names_monitor_.next_check());
  if (sequencer_) also(sequencer_->next_deadline());
  if (watches_batches()) also(batches_monitor_.next_check());
  if (root() && sets_.anyone_joined()) also(joins_monitor_.next_check());
  if (!root() && waits()) also(parent_watch_.next_check());
  return deadline;
}

void RankProtocol::Impl::check_names() {
  const StallFindings findings = names_monitor_.check(now_, blameable(tally_.waiting()));
  if (root()) return report(findings, &Impl::report_names);
  std::erase_if(told_, [&](const auto& entry) {
    return std::none_of(findings.held.begin(), findings.held.end(),
                        [&](const Overdue& wait) { return wait.name == entry.first; });
  });
  for (const Overdue& wait : findings.held) tell_absence(wait.name, wait.held);
}

// Waits for rank 0 do not count while they are expected, nor does the time they took.
std::vector<Waiting> RankProtocol::Impl::blameable(std::vector<Waiting> waiting) const {
  if (!root_expected_) return waiting;
  std::erase_if(waiting, [&](Waiting& one) {
    if (tally_.missing(one.name) != std::vector<Rank>{0}) return false;
    one.before = std::min(one.before, std::max(now_ - *root_expected_, Duration::zero()));
    return now_ < *root_expected_;
  });
  return waiting;
}

void RankProtocol::Impl::tell_absence(const std::string& name, Duration held) {
  std::vector<Rank> missing = tally_.missing(name);
  const auto [told, news] = told_.try_emplace(name);
  if (!news && told->second == missing) return;
  outbox_.absences.push_back({tally_.set_of(name).value_or(kWorldSet), name, held, missing});
  told->second = std::move(missing);
}

// For all ranks; one alone watches its device (core/runtime/unfinished.h).
bool RankProtocol::Impl::watches_batches() const {
  return root() && tree_.size > 1 && !sequencer_->running().empty();
}

void RankProtocol::Impl::check_batches() {
  std::vector<Waiting> running;
  for (const RunningBatch& batch : sequencer_->running()) {
    running.push_back({batch.first->name, batch.number + 1, Duration::zero()});
  }
  report(batches_monitor_.check(now_, running), &Impl::report_batches);
}

// Who has joined waits for the others, who may take their time as long as something runs.
void RankProtocol::Impl::check_joins() {
  std::vector<Waiting> waiting;
  for (ProcessSetId set = 0; set < progress_.size(); ++set) {
    if (!sets_.known(set) || sets_.joined(set) == 0) continue;
    const bool only_root = sets_.expects(set, 0) && sets_.active(set) == 1;
    if (only_root && root_expected_ && now_ < *root_expected_) continue;
    waiting.push_back({describe_set(set), progress_[set], Duration::zero()});
  }
  report(joins_monitor_.check(now_, waiting), &Impl::report_joins);
}

bool RankProtocol::Impl::waits() const {
  return running_ > 0 || submissions_.pending() > 0 || !submissions_.joins().empty();
}

// Rank 0 finds every other rank that is silent; this finds rank 0.
void RankProtocol::Impl::watch_parent() {
  switch (parent_watch_.check(now_, waits())) {
    case ParentWatch::Finding::kNone:
      return;
    case ParentWatch::Finding::kAsk:
      return send(tree_.parent, MessageKind::kProbe);
    case ParentWatch::Finding::kSilent:
      break;
  }
  const std::string parent = "rank " + std::to_string(tree_.parent);
  const std::string what =
      tree_.parent == 0 ? "which decides for all" : "through which rank 0 is heard";
  const Emergency emergency{
      {StatusCode::kStalled, "stalled, giving up: " + parent + ", " + what + ", has sent rank " +
                                 std::to_string(tree_.rank) + " nothing for " +
                                 seconds_text(settings_.stall_limit) +
                                 " and does not answer: stopped or gone"},
      -1};
  // What rank 0 would do; what it hears of it, if it goes on one day, is in fail().
  for (Rank rank = 1; tree_.parent == 0 && rank < tree_.size; ++rank) {
    if (rank != tree_.rank) send(rank, MessageKind::kHalt, emergency);
  }
  fail(emergency.why);
}

void RankProtocol::Impl::receive_probe(Rank from, ByteReader& in) {
  in.expect_end();
  if (!root() && from == tree_.parent) return;
  if (!reporter_of(from)) ByteReader::malformed("a probe not from parent or child");
  if (!stopped_) send(from, MessageKind::kProbe);
}

void RankProtocol::Impl::report(const StallFindings& findings, Describe describe) {
  if (stopped_) return;
  if (findings.ask) sequencer_->ask();
  if (!findings.overdue.empty()) {
    warn(longest_of(findings.overdue), (this->*describe)(findings.overdue));
  }
  if (findings.hopeless) {
    const StallReport report = (this->*describe)({*findings.hopeless});
    halt({{StatusCode::kStalled, "stalled, giving up after " +
                                     seconds_text(findings.hopeless->held) + ": " + report.what +
                                     report.body()},
          -1});
  }
}

// A report says where all ranks are, so that it serves other waits that become overdue soon after.
void RankProtocol::Impl::warn(Duration held, const StallReport& report) {
  std::string body = report.body();
  const bool known = body == last_report_ && !body.empty();
  if (known && now_ < last_report_at_ + settings_.stall_warning / 2) return;
  std::string text = "stalled for " + seconds_text(held) + ": " + report.what;
  text += known ? " (no rank has moved since the last report)" : body;
  last_report_ = std::move(body);
  last_report_at_ = now_;
  effects_.push(Report{std::move(text)});
}

}  // namespace hvd
