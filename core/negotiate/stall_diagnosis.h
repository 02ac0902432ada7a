#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/topology.h"
#include "core/negotiate/decision.h"
#include "core/negotiate/messages/announcement.h"
#include "core/negotiate/process_sets.h"
#include "core/negotiate/readiness_tracker.h"
#include "core/negotiate/stall/stall_monitor.h"

namespace hvd::engine {

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

// Rank 0: what people are told about a stall: who waits for whom, and what each rank does instead.
// It knows what the readiness tracker has heard and what ranks answered when they were asked. Has
// no clock.
class StallDiagnosis {
 public:
  // The arguments outlive it.
  StallDiagnosis(const Tree& tree, const ReadinessTracker& readiness, const ProcessSets& sets,
                 const NegotiationSettings& settings)
      : tree_(tree), readiness_(readiness), sets_(sets), settings_(settings) {}

  // Time passes.
  void tick(TimePoint now) { now_ = now; }
  // All ranks were asked; an answer came.
  void asked() { rank_statuses_.asked(now_); }
  void take(RankStatus rank_status) { rank_statuses_.take(std::move(rank_status)); }
  // Until `deadline` no rank is blamed for waiting for rank 0.
  void expect_wait_for_root(TimePoint deadline) { root_expected_ = deadline; }
  bool expects_root() const { return root_expected_ && now_ < *root_expected_; }
  // Waits for rank 0 do not count while they are expected, nor does the time they took.
  std::vector<Waiting> blameable(std::vector<Waiting> waiting) const;

  // Of names that not all ranks have submitted; the first has waited longest.
  StallReport of_names(const std::vector<Waiting>& waits) const;
  // Of a batch that does not end; `name` is one of its tensors.
  StallReport of_batch(const std::string& name, ProcessSetId set) const;
  // Of a join that not all ranks of the set have called.
  StallReport of_join(ProcessSetId set) const;

 private:
  enum class State {
    kExpected,
    kSilent,
    kUnreachable,  // what it says comes through a rank that is silent
    kNotAsked,
    kElsewhere,
    kJoined,
    kRuns,
    kBusy
  };
  Rank relay_of(Rank rank) const;
  State state_of(Rank rank) const;
  std::vector<Rank> missing(const std::string& name) const;
  std::string waits_in(const std::string& name) const;
  StallLine line_of(Rank rank) const;
  StallLine line_of_waiting(Rank rank, const std::string& name) const;
  StallReport of_missing(const std::vector<Rank>& missing) const;
  Duration answer_limit() const;

  const Tree& tree_;
  const ReadinessTracker& readiness_;
  const ProcessSets& sets_;
  const NegotiationSettings& settings_;
  RankStatuses rank_statuses_;
  TimePoint now_{};
  std::optional<TimePoint> root_expected_;
};

}  // namespace hvd::engine
