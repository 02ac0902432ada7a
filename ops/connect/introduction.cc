#include "ops/connect/introduction.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <utility>

#include "core/base/fields.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/config/build_identity.h"
#include "core/config/log.h"
#include "ops/shm/data_segment.h"

namespace hvd::engine {

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
  throw InvalidArgumentError("all ranks of a job need the same value, but ", problems,
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

namespace {

// Every version begins with these numbers and the build, so that each can name the other; only
// what follows may change.
constexpr std::uint64_t kMagic = 0x6f72746e69647668;  // "hvdintro"
constexpr std::uint32_t kVersion = 1;                 // of the beginning

constexpr std::size_t kLeastValue = 2 * sizeof(std::uint32_t);  // bytes of a name and a value

std::string get_build(ByteReader& reader) {
  if (reader.get<std::uint64_t>() != kMagic || reader.get<std::uint32_t>() != kVersion) {
    ByteReader::malformed("it does not begin like an introduction");
  }
  return reader.get_string();
}

std::string name_of_build(const std::string& text) {
  try {
    ByteReader reader(to_bytes(text));
    return get_build(reader);
  } catch (const PeerLostError&) {
    return "another one, which does not give its version";  // those before this began otherwise
  }
}

void expect_one_build(std::span<const std::string> texts) {
  std::map<std::string, std::vector<Rank>> ranks_of;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    ranks_of[name_of_build(texts[rank])].push_back(static_cast<Rank>(rank));
  }
  if (ranks_of.size() == 1) return;
  std::string builds;
  for (const auto& [build, ranks] : ranks_of) {
    builds += (builds.empty() ? "" : "; ") + build + " on rank(s) " + number_ranges(ranks, ", ");
  }
  throw UnsupportedError(
      "the ranks run different builds of horovod_cpp, which share no memory layouts and "
      "messages: " +
      builds + ". Install the same one for all ranks, made from the same sources");
}

Introduction decode_introduction(const std::string& text) {
  ByteReader reader(to_bytes(text));
  Introduction introduction;
  introduction.build = get_build(reader);
  introduction.host = reader.get_string();
  introduction.identity = reader.get_string();
  introduction.process.pid = static_cast<pid_t>(reader.get<std::int64_t>());
  introduction.process.start_time = reader.get<std::uint64_t>();
  const std::size_t values = reader.get_count(kLeastValue);
  for (std::size_t i = 0; i < values; ++i) {
    std::string name = reader.get_string();
    introduction.chosen[std::move(name)] = reader.get_string();
  }
  reader.expect_end();
  return introduction;
}

}  // namespace

std::string build_and_layout() {
  constexpr ShmLimits kLimits;
  std::string text = std::string(build_identity()) + " (layout ";
  text += std::endian::native == std::endian::little ? "little" : "big";
  for (const std::size_t size :
       {sizeof(std::size_t), sizeof(RankSlot), sizeof(ByteRingState), sizeof(LaneProgress),
        kLimits.lanes, kLimits.chunk_bytes, kLimits.small_bytes, kLimits.sets}) {
    text += "-" + std::to_string(size);
  }
  return text + ")";
}

std::string encode(const Introduction& introduction) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put_string(introduction.build);
  writer.put_string(introduction.host);
  writer.put_string(introduction.identity);
  writer.put(static_cast<std::int64_t>(introduction.process.pid));
  writer.put(introduction.process.start_time);
  writer.put(static_cast<std::uint32_t>(introduction.chosen.size()));
  for (const auto& [name, value] : introduction.chosen) {
    writer.put_string(name);
    writer.put_string(value);
  }
  return to_text(bytes);
}

std::vector<Introduction> decode_introductions(std::span<const std::string> texts) {
  expect_one_build(texts);
  std::vector<Introduction> introductions;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    try {
      introductions.push_back(decode_introduction(texts[rank]));
    } catch (const PeerLostError& error) {
      throw PeerLostError(str_cat("the introduction of rank ", rank, ": ", error.what()));
    }
  }
  return introductions;
}

}  // namespace hvd::engine
