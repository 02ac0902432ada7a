// What rank 0 tells people about a stall: who is missing, and what each of them does instead.

#include <algorithm>

#include "core/base/seconds_text.h"
#include "core/negotiate/rank_protocol_impl.h"

namespace hvd {
namespace {

constexpr std::size_t kRanksInText = 16;

std::string and_more_ranks(std::size_t ranks) {
  if (ranks <= kRanksInText) return "";
  return " and " + std::to_string(ranks - kRanksInText) + " more ranks";
}

// "rank 3", "ranks 3, 4".
std::string list_ranks(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kRanksInText; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text + and_more_ranks(ranks.size());
}

std::string what_it_did(const Sighting& seen) {
  std::string text = seen.last_submitted.empty()
                         ? "has submitted nothing yet"
                         : "last submitted \"" + seen.last_submitted + "\", submission " +
                               std::to_string(seen.submissions);
  if (!seen.where.empty()) text += ", now at " + seen.where;
  return text;
}

}  // namespace

// Asked at half of a warning time, a rank has at least a quarter of it to answer.
Duration RankProtocol::Impl::patience() const {
  const Duration warning = settings_.stall_warning;
  const Duration limit = settings_.stall_limit;
  if (warning == Duration::zero()) return limit / 4;
  return limit == Duration::zero() ? warning / 4 : std::min(warning, limit) / 4;
}

std::string RankProtocol::Impl::describe_name(const Overdue& wait) const {
  const std::vector<Rank> missing = tally_.missing(wait.name);
  const ProcessSetId set = tally_.set_of(wait.name).value_or(kWorldSet);
  const auto all = static_cast<std::size_t>(sets_.active(set));
  return "tensor \"" + wait.name + "\"" + (set == kWorldSet ? "" : " of " + describe_set(set)) +
         ", submitted by " + std::to_string(all - missing.size()) + " of " + std::to_string(all) +
         " ranks, has waited " + seconds_text(wait.held) + " for " + describe_missing(missing, set);
}

std::string RankProtocol::Impl::describe_join(ProcessSetId set, const Overdue& wait) const {
  std::vector<Rank> missing;
  for (const Rank rank : sets_.ranks(set)) {
    if (sets_.expects(set, rank)) missing.push_back(rank);
  }
  return "join() of " + describe_set(set) + ", called by " + std::to_string(sets_.joined(set)) +
         " of " + std::to_string(sets_.ranks(set).size()) + " ranks, has waited " +
         seconds_text(wait.held) + " since something ran there, for " +
         describe_missing(missing, set);
}

std::string RankProtocol::Impl::describe_batch(const Overdue& wait) const {
  const std::string text =
      "the batch of tensor \"" + wait.name + "\" has run for " + seconds_text(wait.held);
  const auto& running = sequencer_->running();
  const auto batch = std::find_if(running.begin(), running.end(), [&](const RunningBatch& one) {
    return one.number + 1 == wait.round;
  });
  std::vector<Rank> silent;
  for (const Rank rank :
       sets_.known(batch->set) ? sets_.ranks(batch->set) : sets_.ranks(kWorldSet)) {
    if (sightings_.silent(rank, now_, patience())) silent.push_back(rank);
  }
  if (silent.empty()) return text + ", and every rank answers";
  return text + ", " + describe_missing(silent, batch->set);
}

std::string RankProtocol::Impl::describe_missing(const std::vector<Rank>& missing,
                                                 ProcessSetId set) const {
  std::string text;
  for (std::size_t i = 0; i < missing.size() && i < kRanksInText; ++i) {
    const Rank rank = missing[i];
    text += (i == 0 ? "rank " : ", rank ") + std::to_string(rank) + " (";
    const Sighting* seen = sightings_.find(rank);
    if (rank == 0 && root_expected_ && now_ < *root_expected_) {
      text += "said that others would have to wait for it";
    } else if (sightings_.silent(rank, now_, patience())) {
      text += "does not answer: stopped or gone";
    } else {
      text += seen == nullptr ? "was not asked yet" : verdict(*seen, set);
    }
    text += ")";
  }
  return text + and_more_ranks(missing.size());
}

// Ordered by how much they explain.
std::string RankProtocol::Impl::verdict(const Sighting& seen, ProcessSetId set) const {
  const std::string did = "; " + what_it_did(seen);
  const bool joins = std::find(seen.joins.begin(), seen.joins.end(), set) != seen.joins.end();
  const std::vector<Rank> elsewhere = tally_.missing(seen.waits_for);
  if (seen.pending > 0 && !elsewhere.empty()) {
    return std::string(joins ? "joined, but " : "went a different way: it ") + "waits for \"" +
           seen.waits_for + "\", which " + list_ranks(elsewhere) + " did not submit" + did;
  }
  if (!seen.joins.empty()) return "joined " + describe_set(seen.joins.front()) + did;
  if (seen.pending > 0) return "slow: it waits for \"" + seen.waits_for + "\" to run" + did;
  return "slow: it answers and waits for nothing, so it is busy outside the engine" + did;
}

}  // namespace hvd
