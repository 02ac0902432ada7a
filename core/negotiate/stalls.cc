// Waits that last too long: what nodes say upwards, and what rank 0 tells people.

#include <algorithm>
#include <cstdio>

#include "core/negotiate/rank_protocol_impl.h"

namespace hvd {
namespace {

constexpr std::size_t kRanksInText = 16;
constexpr std::size_t kNamesInText = 4;

std::string seconds(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", to_seconds(duration));
  return text;
}

}  // namespace

void RankProtocol::Impl::tick(TimePoint now) {
  now_ = std::max(now_, now);
  if (stopped_) return;
  if (!tally_.idle() && names_monitor_.due(now_)) check_names();
  if (sequencer_ && !sequencer_->running().empty() && batches_monitor_.due(now_)) check_batches();
}

std::optional<TimePoint> RankProtocol::Impl::next_deadline() const {
  if (stopped_) return std::nullopt;
  std::optional<TimePoint> deadline;
  const auto also = [&](std::optional<TimePoint> other) {
    if (other && (!deadline || *other < *deadline)) deadline = other;
  };
  if (!tally_.idle()) also(names_monitor_.next_check());
  if (sequencer_) also(sequencer_->next_deadline());
  if (sequencer_ && !sequencer_->running().empty()) also(batches_monitor_.next_check());
  return deadline;
}

void RankProtocol::Impl::check_names() {
  const StallFindings findings = names_monitor_.check(now_, tally_.waiting());
  if (!root()) {
    std::erase_if(told_, [&](const auto& entry) {
      return std::none_of(findings.held.begin(), findings.held.end(),
                          [&](const Overdue& wait) { return wait.name == entry.first; });
    });
    for (const Overdue& wait : findings.held) tell_absence(wait.name, wait.held);
    return;
  }
  if (findings.ask) ask();
  std::string text;
  for (std::size_t i = 0; i < findings.overdue.size() && i < kNamesInText; ++i) {
    text += (i == 0 ? "" : "; ") + describe_name(findings.overdue[i]);
  }
  if (findings.overdue.size() > kNamesInText) {
    text += "; and " + std::to_string(findings.overdue.size() - kNamesInText) + " more tensors";
  }
  if (!text.empty()) effects_.push(Report{"stalled: " + text});
  if (findings.hopeless) {
    halt({{StatusCode::kStalled, "stalled, giving up: " + describe_name(*findings.hopeless)}, -1});
  }
}

void RankProtocol::Impl::tell_absence(const std::string& name, Duration held) {
  std::vector<Rank> missing = tally_.missing(name);
  const auto [told, news] = told_.try_emplace(name);
  if (!news && told->second == missing) return;
  outbox_.absences.push_back({name, held, missing});
  told->second = std::move(missing);
}

void RankProtocol::Impl::check_batches() {
  std::vector<Waiting> running;
  for (const RunningBatch& batch : sequencer_->running()) {
    running.push_back({batch.first_name, batch.number + 1, Duration::zero()});
  }
  const StallFindings findings = batches_monitor_.check(now_, running);
  if (findings.ask) ask();
  // Batches run in order: the first one holds up the others.
  if (!findings.overdue.empty()) {
    effects_.push(Report{"stalled: " + describe_batch(findings.overdue.front())});
  }
  if (findings.hopeless && !stopped_) {
    halt({{StatusCode::kStalled, "stalled, giving up: " + describe_batch(*findings.hopeless)}, -1});
  }
}

void RankProtocol::Impl::ask() {
  sightings_.clear();
  sequencer_->ask();
}

std::string RankProtocol::Impl::describe_name(const Overdue& wait) const {
  const std::vector<Rank> missing = tally_.missing(wait.name);
  const auto here = static_cast<std::size_t>(tree_.size) - missing.size();
  std::string text = "tensor \"" + wait.name + "\", submitted by " + std::to_string(here) + " of " +
                     std::to_string(tree_.size) + " ranks, has waited " + seconds(wait.held) +
                     " for ";
  for (std::size_t i = 0; i < missing.size() && i < kRanksInText; ++i) {
    text += (i == 0 ? "" : ", ") + describe_rank(missing[i]);
  }
  if (missing.size() > kRanksInText) {
    text += " and " + std::to_string(missing.size() - kRanksInText) + " more ranks";
  }
  return text;
}

std::string RankProtocol::Impl::describe_batch(const Overdue& wait) const {
  std::string text = "the batch of tensor \"" + wait.name + "\" has run for " + seconds(wait.held);
  std::size_t silent = 0;
  for (Rank rank = 0; rank < tree_.size; ++rank) {
    if (sightings_.contains(rank)) continue;
    if (++silent <= kRanksInText) text += ", " + describe_rank(rank);
  }
  if (silent > kRanksInText)
    text += " and " + std::to_string(silent - kRanksInText) + " more ranks";
  return silent == 0 ? text + ", and every rank answers" : text;
}

std::string RankProtocol::Impl::describe_rank(Rank rank) const {
  const std::string text = "rank " + std::to_string(rank);
  const auto seen = sightings_.find(rank);
  if (seen == sightings_.end()) return text + " (does not answer: busy, stopped or gone)";
  if (seen->second.last_submitted.empty()) return text + " (has submitted nothing yet)";
  return text + " (last submitted \"" + seen->second.last_submitted + "\")";
}

}  // namespace hvd
