#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/base/unique_fd.h"
#include "core/observe/timeline_events.h"
#include "core/observe/timeline_tracks.h"

namespace hvd {

struct TimelineOptions {
  // The trace stops here, saying so; it keeps its beginning.
  std::size_t max_bytes = std::size_t{512} << 20;
  bool mark_cycles = false;
  // Tensor events of one rank that may wait; further ones are dropped, counted, and the count is
  // written.
  std::size_t queue_limit = std::size_t{1} << 18;
  Duration flush_interval = std::chrono::milliseconds(100);
};

// Writes the trace of a job on rank 0, on a thread of its own: the blocks that a recorder of this
// rank has, and those that came from other ranks. The file is a JSON array with one event per line,
// and only ever appended to. Its closing bracket comes at the end; the trace event format makes it
// optional, so that the file of a job that runs, or was killed, can be read as well: its last line
// may be incomplete.
class TimelineWriter {
 public:
  // Overwrites the file. Throws InvalidArgumentError with path and reason if it cannot be written.
  // `own` outlives this object.
  TimelineWriter(const std::string& path, const TimelineOptions& options, TimelineRecorder& own);
  ~TimelineWriter();
  TimelineWriter(const TimelineWriter&) = delete;
  TimelineWriter& operator=(const TimelineWriter&) = delete;

  // A block of another rank. Any thread; never waits for the disk.
  void add(Rank from, const ClockEstimate& clock, std::span<const std::byte> block);
  // The file is full or broken: nothing more is written.
  bool ended() const noexcept { return ended_; }
  // Waits until all ranks that sent something said that they record no more, at most until the
  // deadline. Any thread.
  void wait_for_others(TimePoint deadline);
  // Writes everything that is queued; the file is complete afterwards. One thread; once.
  void finish();

 private:
  using Records = TimelineTracks::Records;
  struct Block {
    Rank from = 0;
    ClockEstimate clock;
    Bytes bytes;
  };

  TimelineTracks& tracks_of(Rank rank, Records& records);
  void write_until_stopped();
  bool sleep();
  void write_queued();
  void read(const Block& block, Records& records);
  void write(Records records);
  bool append(const Records& records);
  std::string full_record() const;
  void end(const std::string& why);

  const std::string path_;
  const TimelineOptions options_;
  const TimePoint begin_ = Clock::now();
  TimelineRecorder& own_;
  std::atomic<bool> ended_{false};

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool stopping_ HVD_GUARDED_BY(mutex_) = false;
  std::vector<Block> queue_ HVD_GUARDED_BY(mutex_);
  std::size_t queued_bytes_ HVD_GUARDED_BY(mutex_) = 0;
  std::map<Rank, std::uint64_t> lost_blocks_ HVD_GUARDED_BY(mutex_);  // no room in the queue
  std::set<Rank> recording_ HVD_GUARDED_BY(mutex_);  // other ranks that will send more

  // The writing thread's.
  UniqueFd file_;
  std::size_t size_ = 0;  // of the file, in bytes
  std::map<Rank, TimelineTracks> tracks_;
  bool warned_ = false;

  std::thread thread_;  // last: it uses the rest
};

}  // namespace hvd
