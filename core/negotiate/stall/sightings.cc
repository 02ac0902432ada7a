#include "core/negotiate/stall/sightings.h"

#include <algorithm>

namespace hvd {

void Sightings::asked(TimePoint now) {
  if (questions_.size() == kRemembered) questions_.erase(questions_.begin());
  questions_.push_back({++asks_, now});
}

void Sightings::take(Sighting sighting) {
  sightings_.insert_or_assign(sighting.rank, std::move(sighting));
}

const Sighting* Sightings::find(Rank rank) const {
  const auto found = sightings_.find(rank);
  return found == sightings_.end() ? nullptr : &found->second;
}

bool Sightings::silent(Rank rank, TimePoint now, Duration patience) const {
  const Sighting* seen = find(rank);
  const std::uint64_t answered = seen == nullptr ? 0 : seen->ask;
  return std::any_of(questions_.begin(), questions_.end(), [&](const Question& question) {
    return question.ask > answered && question.when + patience <= now;
  });
}

}  // namespace hvd
