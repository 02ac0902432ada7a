#include "core/negotiate/stall/stall_report.h"

#include <algorithm>

#include "core/base/topology.h"

namespace hvd {

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

}  // namespace hvd
