#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/topology.h"
#include "core/negotiate/request.h"

namespace hvd {

// Something that happened to a tensor, or to those of a batch (see Observer).
struct TimelineEvent {
  enum class Kind { kSubmitted, kNegotiated, kStarted, kFinished, kFailed };

  Kind kind = Kind::kSubmitted;
  std::chrono::nanoseconds at{0};  // since the timeline began
  std::vector<std::string> names = {};
  // Of the batch, from kNegotiated to kFinished.
  std::uint64_t batch = 0;
  CollectiveKind collective = CollectiveKind::kAllreduce;
  DType dtype = DType::kF32;
  std::size_t bytes = 0;
  std::string why = {};  // kFailed
};

// Turns events into records of the Chrome trace event format (JSON objects): one track a tensor,
// on it NEGOTIATE_<KIND> from submitted to negotiated, QUEUE up to started, <KIND> up to finished,
// one after the other. Pure. Events may be missing; then the phases that need them are.
class TimelineTracks {
 public:
  using Records = std::vector<std::string>;

  // `rank` is the process number in the trace.
  explicit TimelineTracks(Rank rank) : rank_(rank) {}

  // What stands before everything else.
  void open(Records& records) const;
  void apply(const TimelineEvent& event, Records& records);
  // `count` tensor events were left out.
  void dropped(std::uint64_t count, std::chrono::nanoseconds at, Records& records);
  // What has begun ends here, marked as unfinished.
  void close(std::chrono::nanoseconds at, Records& records);

 private:
  enum class Phase { kNone, kNegotiating, kQueued, kRunning };

  struct Track {
    int number = 0;
    Phase phase = Phase::kNone;
    std::chrono::nanoseconds since{0};
    std::optional<CollectiveKind> collective;  // known once negotiated
  };

  Track& track_of(const std::string& name, Records& records);
  void move_to(Phase next, Phase from, Track& track, const TimelineEvent& event, Records& records);
  void fail(Track& track, const TimelineEvent& event, Records& records);
  std::string head(const std::string& name, char type, int track) const;
  std::string span(const Track& track, std::chrono::nanoseconds end, const std::string& args) const;
  static std::string name_of_phase(const Track& track);

  Rank rank_;
  std::unordered_map<std::string, Track> tracks_;
};

}  // namespace hvd
