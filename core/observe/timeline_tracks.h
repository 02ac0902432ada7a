#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/observe/observer.h"

namespace hvd::engine {

// Keeps what happens on one rank, by its own clock, in the form in which it travels to rank 0,
// while it is switched on. Thread-safe: one thread records, another may take.
class TimelineRecorder {
 public:
  // Tensor events (a batch counts once per tensor) that may wait for take(); further ones are
  // dropped and counted.
  explicit TimelineRecorder(std::size_t limit) : limit_(limit) {}

  // Switched off, it says so once to the reader.
  void record(bool on);
  void submitted(const SubmissionInfo& submission);
  void finished(const BatchInfo& batch);
  void failed(std::string_view name, const Status& why, TimePoint at);
  // Everything since the last call: one block for TimelineTracks::add(), or nothing.
  Bytes take();

 private:
  bool admit(std::size_t tensors) HVD_REQUIRES(mutex_);
  void put_name(std::string_view name, bool automatic) HVD_REQUIRES(mutex_);

  const std::size_t limit_;
  Mutex mutex_;
  bool on_ HVD_GUARDED_BY(mutex_) = false;
  std::size_t held_ HVD_GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ HVD_GUARDED_BY(mutex_) = 0;
  // Names travel once per block.
  std::unordered_map<std::string, std::uint32_t> numbers_ HVD_GUARDED_BY(mutex_);
  Bytes names_ HVD_GUARDED_BY(mutex_);
  Bytes events_ HVD_GUARDED_BY(mutex_);
};

// Turns what one rank recorded into records of the Chrome trace event format (JSON objects), with
// the rank as the process and one track per tensor: NEGOTIATE_<OP> from submitted to negotiated
// (begin and end, so that a trace of a job that hangs shows who waits), QUEUE up to started, <OP>
// up to finished and in it PACK and UNPACK, which are as long as they took in all. Tensors with
// automatic names take turns on tracks of their own. Spans of one track never overlap.
class TimelineTracks {
 public:
  using Records = std::vector<std::string>;

  // Appends to `records`, which outlive it. The trace's time 0 is `begin` of rank 0's clock.
  // `mark_cycles`: an instant CYCLE_START where each batch was negotiated.
  TimelineTracks(Rank rank, TimePoint begin, bool mark_cycles, Records& records);

  // How this rank's clock relates to rank 0's, from here on; written as an instant CLOCK_OFFSET
  // when it is news.
  void set_clock(const ClockEstimate& clock);
  // A block of the rank's recorder. True if it records no more. Throws PeerLostError on a malformed
  // block; events before the fault count.
  bool add(std::span<const std::byte> block);
  // So many of its events are lost.
  void drop(std::uint64_t events, TimePoint at);
  // What has begun ends at `now` of rank 0's clock, marked as unfinished.
  void close(TimePoint now);

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
  Track& track_of(const BatchMemberInfo& tensor);
  void name_track(Track& track, const std::string& title);
  void release(const BatchMemberInfo& tensor);
  void submit(const BatchMemberInfo& tensor, CollectiveKind kind, TimePoint at);
  void begin_negotiating(Track& track);
  void end_negotiating(Track& track, Nanoseconds at, const std::string& args);
  bool end_negotiating_of(Track& track, TimePoint negotiated);
  void finish(const BatchInfo& batch);
  void show_batch(Track& track, const BatchInfo& batch, const std::string& args);
  void fail(const BatchMemberInfo& tensor, const std::string& why, TimePoint at);
  void record(const std::string& name, char type, int track, const std::string& rest);
  void instant(const std::string& name, int track, Nanoseconds at, const std::string& args);
  void span(const std::string& name, const Track& track, Nanoseconds from, Nanoseconds to,
            const std::string& args = "");

  const Rank rank_;
  const TimePoint begin_;
  const bool mark_cycles_;
  Records& records_;
  std::optional<ClockEstimate> clock_;
  int track_count_ = 0;
  std::unordered_map<std::string, Track> tracks_;       // by name
  std::unordered_map<std::string, std::size_t> taken_;  // automatic names: the lane each is on
  std::vector<Track> lanes_;
  std::vector<std::size_t> free_lanes_;
};

}  // namespace hvd::engine
