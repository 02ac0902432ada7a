#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/clock.h"
#include "core/negotiate/messages/announcement.h"

namespace hvd {

// Rank 0: what it asked all ranks and who has answered.
class Sightings {
 public:
  // The step `ask` went out.
  void asked(TimePoint now);
  void take(Sighting sighting);
  // Null while the rank has not answered.
  const Sighting* find(Rank rank) const;
  // It has left unanswered what was asked at least `patience` ago.
  bool silent(Rank rank, TimePoint now, Duration patience) const;

 private:
  struct Question {
    std::uint64_t ask = 0;
    TimePoint when;
  };
  static constexpr std::size_t kRemembered = 8;

  std::vector<Question> questions_;  // the last ones, in order
  std::uint64_t asks_ = 0;
  std::map<Rank, Sighting> sightings_;
};

}  // namespace hvd
