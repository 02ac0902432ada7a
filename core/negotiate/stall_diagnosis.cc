#include "core/negotiate/stall_diagnosis.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/clock.h"
#include "core/base/topology.h"
#include "core/negotiate/messages/request.h"

namespace hvd::engine {

void RankStatuses::asked(TimePoint now) {
  if (questions_.size() == kRemembered) questions_.erase(questions_.begin());
  questions_.push_back({++asks_, now});
}

void RankStatuses::take(RankStatus rank_status) {
  rank_statuses_.insert_or_assign(rank_status.rank, std::move(rank_status));
}

const RankStatus* RankStatuses::find(Rank rank) const {
  const auto found = rank_statuses_.find(rank);
  return found == rank_statuses_.end() ? nullptr : &found->second;
}

bool RankStatuses::silent(Rank rank, TimePoint now, Duration timeout) const {
  const RankStatus* seen = find(rank);
  const std::uint64_t answered = seen == nullptr ? 0 : seen->ask;
  return std::any_of(questions_.begin(), questions_.end(), [&](const Question& question) {
    return question.ask > answered && question.when + timeout <= now;
  });
}

namespace {

constexpr std::size_t kLines = 16;
constexpr std::size_t kWidest = 60;  // a column that is wider is not padded for

void pad(std::string& text, std::size_t begin, std::size_t width) {
  const std::size_t end = begin + std::min(width, kWidest) + 2;
  text.append(text.size() < end ? end - text.size() : 2, ' ');
}

}  // namespace

void StallReport::add(StallLine line) {
  const auto same = std::find_if(lines.begin(), lines.end(), [&](const StallLine& other) {
    return other.says_the_same_as(line);
  });
  if (same == lines.end()) {
    lines.push_back(std::move(line));
  } else {
    same->ranks.insert(same->ranks.end(), line.ranks.begin(), line.ranks.end());
  }
}

std::string StallReport::body() const {
  const std::size_t shown = std::min(lines.size(), kLines);
  std::vector<std::string> labels, places;
  std::size_t label_width = 0, does_width = 0, place_width = 0;
  for (std::size_t i = 0; i < shown; ++i) {
    labels.push_back(describe_ranks(lines[i].ranks));
    places.push_back(lines[i].place.empty() ? "" : "at " + lines[i].place);
    label_width = std::max(label_width, labels.back().size());
    does_width = std::max(does_width, lines[i].does.size());
    place_width = std::max(place_width, places.back().size());
  }
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const StallLine& line = lines[i];
    text += "\n  ";
    std::size_t begin = text.size();
    text += labels[i];
    pad(text, begin, label_width);
    begin = text.size();
    text += line.does;
    if (!places[i].empty() || !line.submission.empty()) pad(text, begin, does_width);
    begin = text.size();
    text += places[i];
    if (line.submission.empty()) continue;
    if (place_width > 0) pad(text, begin, place_width);
    text += "(" + line.submission + ")";
  }
  if (lines.size() > kLines) {
    text += "\n  and " + std::to_string(lines.size() - kLines) + " more lines about other ranks";
  }
  return advice.empty() ? text : text + "\n  -> " + advice;
}

namespace {

constexpr const char* kSilent = "no answer: stopped or gone";
constexpr const char* kSeePage = "see docs/hangs.md";

std::string more_calls(std::uint64_t pending) {
  if (pending < 2) return "";
  return " and in " + std::to_string(pending - 1) + (pending == 2 ? " more call" : " more calls");
}

std::string submission(std::uint64_t number) {
  return number == 0 ? "" : "submission " + std::to_string(number);
}

std::string and_last(const RankStatus& seen) {
  if (seen.last_submitted.empty()) return "nothing submitted yet";
  return "last submitted " + readable_name(seen.last_submitted);
}

std::vector<Rank> in_order(const std::set<Rank>& ranks) {
  return {ranks.begin(), ranks.end()};
}

std::string be_late(const std::vector<Rank>& ranks) {
  return describe_ranks(ranks) + (ranks.size() == 1 ? " is late" : " are late");
}

}  // namespace

// Asked at half of a warning time, a rank has at least a quarter of it to answer.
Duration StallDiagnosis::answer_limit() const {
  const Duration warning = settings_.stall_warning;
  const Duration limit = settings_.stall_limit;
  if (warning == Duration::zero()) return limit / 4;
  return limit == Duration::zero() ? warning / 4 : std::min(warning, limit) / 4;
}

std::vector<Waiting> StallDiagnosis::blameable(std::vector<Waiting> waiting) const {
  if (!root_expected_) return waiting;
  std::erase_if(waiting, [&](Waiting& one) {
    if (readiness_.missing(one.name) != std::vector<Rank>{0}) return false;
    one.held = std::min(one.held, std::max(now_ - *root_expected_, Duration::zero()));
    return now_ < *root_expected_;
  });
  return waiting;
}

// Ranks that have not submitted `name`: what the readiness tracker knows, less those that said
// since that they wait for it.
std::vector<Rank> StallDiagnosis::missing(const std::string& name) const {
  std::vector<Rank> ranks = readiness_.missing(name);
  std::vector<Rank> left = ranks;
  std::erase_if(left, [&](Rank rank) {
    const RankStatus* seen = rank_statuses_.find(rank);
    return seen != nullptr && seen->pending > 0 && seen->waits_for == name;
  });
  return left.empty() ? ranks : left;
}

std::string StallDiagnosis::waits_in(const std::string& name) const {
  return "waiting in " + readable_name(name) + " for " + describe_ranks(missing(name));
}

// The child of rank 0 that passes on what the rank says: perhaps itself.
Rank StallDiagnosis::relay_of(Rank rank) const {
  for (std::size_t i = 0; i < tree_.children.size(); ++i) {
    if (std::ranges::binary_search(tree_.below[i], rank)) return tree_.children[i];
  }
  return rank;
}

StallDiagnosis::State StallDiagnosis::state_of(Rank rank) const {
  if (rank == 0 && expects_root()) return State::kExpected;
  if (rank_statuses_.silent(rank, now_, answer_limit())) {
    const Rank relay = relay_of(rank);
    const bool cut_off = relay != rank && rank_statuses_.silent(relay, now_, answer_limit());
    return cut_off ? State::kUnreachable : State::kSilent;
  }
  const RankStatus* seen = rank_statuses_.find(rank);
  if (seen == nullptr) return State::kNotAsked;
  if (seen->pending > 0 && !missing(seen->waits_for).empty()) return State::kElsewhere;
  if (!seen->joins.empty()) return State::kJoined;
  return seen->pending > 0 ? State::kRuns : State::kBusy;
}

// What a rank that has not submitted what others wait for is doing.
StallLine StallDiagnosis::line_of(Rank rank) const {
  const RankStatus* seen = rank_statuses_.find(rank);
  const auto with_place = [&](std::string does, std::uint64_t number) {
    return StallLine{{rank}, std::move(does), seen->where, submission(number)};
  };
  switch (state_of(rank)) {
    case State::kExpected:
      return {{rank}, "said that others would have to wait for it", "", ""};
    case State::kSilent:
      return {{rank}, kSilent, "", ""};
    case State::kUnreachable:
      return {{rank},
              "cannot be asked: reached through rank " + std::to_string(relay_of(rank)),
              "",
              ""};
    case State::kNotAsked:
      return {{rank}, "not asked yet", "", ""};
    case State::kElsewhere:
      return with_place((seen->joins.empty() ? "" : "in join(), but ") + waits_in(seen->waits_for) +
                            more_calls(seen->pending),
                        seen->waits_number);
    case State::kJoined:
      return with_place("joined " + describe_set(seen->joins.front()) + "; " + and_last(*seen),
                        seen->submissions);
    case State::kRuns:
      return with_place("waiting until " + readable_name(seen->waits_for) + " has run",
                        seen->waits_number);
    case State::kBusy:
      break;
  }
  return with_place("busy outside the engine; " + and_last(*seen), seen->submissions);
}

// Of a rank that has submitted `name`, which may have been after it was asked.
StallLine StallDiagnosis::line_of_waiting(Rank rank, const std::string& name) const {
  const State now = state_of(rank);
  if (now == State::kElsewhere || now == State::kSilent || now == State::kUnreachable) {
    return line_of(rank);
  }
  return {{rank}, waits_in(name), "", ""};
}

StallReport StallDiagnosis::of_names(const std::vector<Waiting>& waits) const {
  std::set<Rank> late;
  std::map<Rank, std::string> waiting;  // in the name that has waited longest
  for (const Waiting& wait : waits) {
    const std::vector<Rank> without = missing(wait.name);
    late.insert(without.begin(), without.end());
    const ProcessSetId set = readiness_.set_of(wait.name).value_or(kWorldSet);
    for (const Rank rank : sets_.ranks(set)) {
      const bool submitted = !std::binary_search(without.begin(), without.end(), rank);
      if (submitted && sets_.expects(set, rank)) waiting.try_emplace(rank, wait.name);
    }
  }
  StallReport report = of_missing(in_order(late));
  report.lines.clear();
  std::set<Rank> all = late;
  for (const auto& [rank, name] : waiting) all.insert(rank);
  for (const Rank rank : all) {
    report.add(late.contains(rank) ? line_of(rank) : line_of_waiting(rank, waiting.at(rank)));
  }
  return report;
}

// Ordered by how much they explain.
StallReport StallDiagnosis::of_missing(const std::vector<Rank>& missing) const {
  StallReport report;
  std::map<State, std::vector<Rank>> ranks;
  for (const Rank rank : missing) {
    report.add(line_of(rank));
    ranks[state_of(rank)].push_back(rank);
  }
  if (const auto& silent = ranks[State::kSilent]; !silent.empty()) {
    report.what = describe_ranks(silent) + (silent.size() == 1 ? " does" : " do") + " not answer";
    report.advice = "stopped, swapping, or the machine is gone; " + std::string(kSeePage);
  } else if (!ranks[State::kElsewhere].empty()) {
    report.what = "ranks went different ways";
    report.advice =
        "is one of these calls behind `if rank() == 0`, are they made in another order, or do "
        "ranks have different numbers of batches (see join(), for Keras JoinCallback)? " +
        std::string(kSeePage);
  } else if (const auto& joined = ranks[State::kJoined]; !joined.empty()) {
    report.what = describe_ranks(joined) + (joined.size() == 1 ? " waits" : " wait") + " in join()";
    report.advice = kSeePage;
  } else {
    std::vector<Rank> late = missing;
    std::erase_if(late, [&](Rank rank) { return state_of(rank) == State::kExpected; });
    report.what = be_late(late.empty() ? missing : late);
    report.advice =
        "a slow step, a call that only some ranks make, or uneven batches (see join()); " +
        std::string(kSeePage);
  }
  return report;
}

StallReport StallDiagnosis::of_join(ProcessSetId set) const {
  std::vector<Rank> missing;
  for (const Rank rank : sets_.ranks(set)) {
    if (sets_.expects(set, rank)) missing.push_back(rank);
  }
  StallReport report = of_missing(missing);
  report.what = "join() of " + describe_set(set) + " was called by " +
                std::to_string(sets_.joined(set)) + " of " +
                std::to_string(sets_.ranks(set).size()) +
                " ranks and nothing ran there since: " + report.what;
  return report;
}

StallReport StallDiagnosis::of_batch(const std::string& name, ProcessSetId set) const {
  std::vector<Rank> silent;
  for (const Rank rank : sets_.ranks(sets_.known(set) ? set : kWorldSet)) {
    const State now = state_of(rank);
    if (now == State::kSilent || now == State::kUnreachable) silent.push_back(rank);
  }
  StallReport report;
  if (!silent.empty()) report = of_missing(silent);
  report.what = "the batch of " + readable_name(name) + " does not end, and " +
                (silent.empty() ? "every rank answers" : report.what);
  return report;
}

}  // namespace hvd::engine
