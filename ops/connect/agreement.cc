#include "ops/connect/agreement.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/config/log.h"

namespace hvd {
namespace {

const std::string& value_on(const ChosenValues& rank, const Term& term) {
  const auto chosen = rank.find(term.name);
  return chosen == rank.end() ? term.default_value : chosen->second;
}

// Who has which value, in the order of the first ranks.
using Holders = std::vector<std::pair<std::string, std::vector<Rank>>>;

Holders holders_of(const Term& term, std::span<const ChosenValues> by_rank) {
  Holders holders;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const std::string& value = value_on(by_rank[rank], term);
    auto found = std::find_if(holders.begin(), holders.end(),
                              [&](const auto& row) { return row.first == value; });
    if (found == holders.end()) found = holders.insert(found, {value, {}});
    found->second.push_back(static_cast<Rank>(rank));
  }
  return holders;
}

// "'1' on ranks 0-2 and '0' (the default) on rank 3"
std::string describe(const Term& term, const Holders& holders) {
  std::string text;
  for (const auto& [value, ranks] : holders) {
    text += (text.empty() ? "'" : " and '") + value +
            (value == term.default_value ? "' (the default) on " : "' on ") +
            (ranks.size() == 1 ? "rank " : "ranks ") + number_ranges(ranks, ", ");
  }
  return text;
}

}  // namespace

std::vector<Term> terms_of(const Config& config) {
  std::vector<Term> terms;
  for (const SettingInfo& row : describe_settings(config)) {
    if (row.agreement == Agreement::kPerRank) continue;
    terms.push_back({row.name, row.value, row.default_value, row.agreement});
  }
  return terms;
}

ChosenValues chosen_values(std::span<const Term> terms) {
  ChosenValues chosen;
  for (const Term& term : terms) {
    if (term.value != term.default_value) chosen.emplace(term.name, term.value);
  }
  return chosen;
}

void expect_agreement(std::span<const Term> terms, std::span<const ChosenValues> by_rank) {
  std::string problems;
  for (const Term& term : terms) {
    if (term.agreement != Agreement::kEqual) continue;
    const Holders holders = holders_of(term, by_rank);
    if (holders.size() == 1) continue;
    problems += (problems.empty() ? "" : "; ") + term.name + " is " + describe(term, holders);
  }
  if (problems.empty()) return;
  throw InvalidArgumentError("all ranks of a job need the same value, but " + problems +
                             ". Set it alike for all: hvdrun passes the variables of its own "
                             "environment to all hosts, mpirun those that -x NAME names");
}

void adopt(Config& config, Rank rank, std::span<const Term> terms,
           std::span<const ChosenValues> by_rank) {
  for (const Term& term : terms) {
    if (term.agreement != Agreement::kRankZero) continue;
    const std::string& value = value_on(by_rank.front(), term);
    take_from_rank_zero(config, term.name, value);
    const bool in_vain = std::any_of(by_rank.begin(), by_rank.end(), [&](const ChosenValues& each) {
      return each.contains(term.name) && each.at(term.name) != value;
    });
    if (rank != 0 || !in_vain) continue;
    log(LogLevel::kWarning, term.name + ": rank 0's value holds on all ranks; it is " +
                                describe(term, holders_of(term, by_rank)));
  }
}

}  // namespace hvd
