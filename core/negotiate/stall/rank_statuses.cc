#include "core/negotiate/stall/rank_statuses.h"

#include <algorithm>

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

}  // namespace hvd
