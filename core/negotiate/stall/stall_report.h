#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/topology.h"
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

// What a report of a stall says about one rank.
struct StallLine {
  std::vector<Rank> ranks;  // all those of which it says the same
  std::string does;         // "waiting in 'w' (allreduce) for rank 3"
  std::string place;        // "train.py:12 in evaluate"; empty = unknown
  std::string submission;   // "submission 27"; empty = none

  bool says_the_same_as(const StallLine& other) const {
    return does == other.does && place == other.place && submission == other.submission;
  }
};

// A report for people: what happened ("rank 3 is late"), a line about each rank, what to do next.
struct StallReport {
  std::string what;
  std::vector<StallLine> lines;
  std::string advice;  // empty = none

  // Ranks of which the same is said share a line. Ranks ascend from call to call.
  void add(StallLine line);
  // The lines in columns and the advice, each behind a newline. Of many lines the last are counted.
  std::string body() const;
};

}  // namespace hvd
