#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/clock.h"
#include "core/negotiate/messages/announcement.h"

namespace hvd {

// Rank 0: what it asked all ranks and who has answered.
class RankStatuses {
 public:
  // The step `ask` went out.
  void asked(TimePoint now);
  void take(RankStatus rank_status);
  // Null while the rank has not answered.
  const RankStatus* find(Rank rank) const;
  // It has left unanswered what was asked at least `timeout` ago.
  bool silent(Rank rank, TimePoint now, Duration timeout) const;

 private:
  struct Question {
    std::uint64_t ask = 0;
    TimePoint when;
  };
  static constexpr std::size_t kRemembered = 8;

  std::vector<Question> questions_;  // the last ones, in order
  std::uint64_t asks_ = 0;
  std::map<Rank, RankStatus> rank_statuses_;
};

}  // namespace hvd
