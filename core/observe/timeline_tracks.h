#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/clock.h"
#include "core/base/topology.h"
#include "core/observe/timeline_events.h"

namespace hvd {

// Turns the events of one rank into records of the Chrome trace event format (JSON objects), with
// the rank as the process and one track a tensor: NEGOTIATE_<OP> from submitted to negotiated
// (begin and end, so that a trace of a job that hangs shows who waits), QUEUE up to started, <OP>
// up to finished and in it PACK and UNPACK, which are as long as they took in all. Tensors with
// automatic names take turns on tracks of their own. Pure. Spans of one track never overlap.
class TimelineTracks {
 public:
  using Records = std::vector<std::string>;

  // The trace's time 0 is `begin` of rank 0's clock. `mark_cycles`: an instant CYCLE_START where
  // each batch was negotiated.
  TimelineTracks(Rank rank, TimePoint begin, bool mark_cycles)
      : rank_(rank), begin_(begin), mark_cycles_(mark_cycles) {}

  // What stands before everything else.
  void open(Records& records) const;
  // How this rank's clock relates to rank 0's, from here on; written as an instant CLOCK_OFFSET
  // when it is news.
  void set_clock(const ClockEstimate& clock, Records& records);
  void apply(const TimelineEvent& event, Records& records);
  // What has begun ends at `now` of rank 0's clock, marked as unfinished.
  void close(TimePoint now, Records& records);

 private:
  using Nanoseconds = std::int64_t;  // since the trace began

  struct Negotiation {
    CollectiveKind collective = CollectiveKind::kAllreduce;
    TimePoint submitted{};
    std::string args;
  };
  struct Track {
    int number = 0;
    Nanoseconds end = 0;  // nothing begins earlier
    // The first is in the trace. Others follow when a name is submitted again before the device is
    // through with it.
    std::deque<Negotiation> negotiations;
  };

  Nanoseconds trace_time(TimePoint here) const;
  Track& track_of(const TimelineEvent::Name& name, Records& records);
  Track& new_track(Track& track, const std::string& title, Records& records);
  void release(const TimelineEvent::Name& name);
  void submit(const TimelineEvent& event, Records& records);
  void begin_negotiating(Track& track, Records& records) const;
  void end_negotiating(Track& track, Nanoseconds at, const std::string& args,
                       Records& records) const;
  bool end_negotiating_of(Track& track, const TimelineEvent& batch, Records& records) const;
  void finish(const TimelineEvent& event, Records& records);
  void show_batch(Track& track, const TimelineEvent& event, const std::string& args,
                  Records& records) const;
  void fail(const TimelineEvent& event, Records& records);
  std::string head(const std::string& name, char type, int track) const;
  std::string instant(const std::string& name, int track, Nanoseconds at,
                      const std::string& args) const;
  std::string span(const std::string& name, const Track& track, Nanoseconds from, Nanoseconds to,
                   const std::string& args) const;

  const Rank rank_;
  const TimePoint begin_;
  const bool mark_cycles_;
  std::optional<ClockEstimate> clock_;
  int track_count_ = 0;
  std::unordered_map<std::string, Track> tracks_;       // by name
  std::unordered_map<std::string, std::size_t> taken_;  // automatic names: the lane each is on
  std::vector<Track> lanes_;
  std::vector<std::size_t> free_lanes_;
};

}  // namespace hvd
