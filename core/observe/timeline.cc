#include "core/observe/timeline.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/config/log.h"
#include "core/system/engine_thread.h"
#include "core/system/files.h"

namespace hvd::engine {
namespace {

// Of blocks that wait for the writing thread.
constexpr std::size_t kQueueBytes = std::size_t{64} << 20;
// Left free for what is written after the last event.
constexpr std::size_t kReserve = 4096;
// Before the first record, and before each other.
constexpr std::string_view kFirst = "[\n";
constexpr std::string_view kNext = ",\n";
constexpr std::string_view kClosing = "\n]\n";

[[noreturn]] void refuse_trace(const std::string& path, const std::string& why) {
  throw InvalidArgumentError("cannot write the timeline '" + path + "': " + why);
}

UniqueFd open_trace(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type != std::filesystem::file_type::regular &&
      type != std::filesystem::file_type::not_found) {
    // The reader of a pipe could hold up the end of the job.
    refuse_trace(path, error ? error.message() : "it is not a regular file");
  }
  try {
    return open_output(path);
  } catch (const InvalidArgumentError& why) {
    refuse_trace(path, why.what());
  }
}

std::string start_record() {
  const auto since_epoch = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return R"({"name":"TIMELINE_START","ph":"i","pid":0,"tid":0,"ts":0.000,"s":"g","args":{)"
         R"("start_time_since_epoch_in_micros":)" +
         std::to_string(since_epoch.count()) + "}}";
}

}  // namespace

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
  struct Block {
    Rank from = 0;
    ClockEstimate clock;
    Bytes bytes;
  };

  TimelineTracks& tracks_of(Rank rank);
  void write_until_stopped();
  bool sleep();
  void write_queued();
  void read(const Block& block);
  void write();
  bool append();
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
  std::uint64_t lost_blocks_ HVD_GUARDED_BY(mutex_) = 0;  // no room in the queue
  std::set<Rank> recording_ HVD_GUARDED_BY(mutex_);       // other ranks that will send more

  // The writing thread's.
  UniqueFd file_;
  std::size_t size_ = 0;             // of the file, in bytes
  TimelineTracks::Records records_;  // not written yet
  std::map<Rank, TimelineTracks> tracks_;
  bool warned_ = false;

  std::thread thread_;  // last: it uses the rest
};

TimelineWriter::TimelineWriter(const std::string& path, const TimelineOptions& options,
                               TimelineRecorder& own)
    : path_(path), options_(options), own_(own), file_(open_trace(path)) {
  tracks_of(0);
  records_.push_back(start_record());
  if (!append()) refuse_trace(path, std::strerror(errno));
  thread_ = start_engine_thread([this] { write_until_stopped(); });
}

TimelineWriter::~TimelineWriter() {
  if (thread_.joinable()) finish();
}

void TimelineWriter::finish() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void TimelineWriter::add(Rank from, const ClockEstimate& clock, std::span<const std::byte> block) {
  if (ended_) return;
  const MutexLock lock(mutex_);
  recording_.insert(from);
  if (queued_bytes_ + block.size() > kQueueBytes) {
    ++lost_blocks_;
    return;
  }
  queued_bytes_ += block.size();
  queue_.push_back({from, clock, {block.begin(), block.end()}});
}

void TimelineWriter::wait_for_others(TimePoint deadline) {
  const MutexLock lock(mutex_);
  while (!recording_.empty() && !ended_) {
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) return;
  }
}

TimelineTracks& TimelineWriter::tracks_of(Rank rank) {
  return tracks_.try_emplace(rank, rank, begin_, options_.mark_cycles, records_).first->second;
}

void TimelineWriter::write_until_stopped() {
  for (bool last = false; !last;) {
    last = sleep();
    write_queued();
  }
  for (auto& [rank, tracks] : tracks_) tracks.close(Clock::now());
  write();
  if (!ended_ && !write_all(file_, kClosing)) end(std::strerror(errno));
}

// True when it was the last time.
bool TimelineWriter::sleep() {
  const TimePoint deadline = Clock::now() + options_.flush_interval;
  const MutexLock lock(mutex_);
  while (!stopping_) {
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) break;
  }
  return stopping_;
}

void TimelineWriter::write_queued() {
  std::vector<Block> blocks;
  std::uint64_t lost = 0;
  {
    const MutexLock lock(mutex_);
    blocks.swap(queue_);
    std::swap(lost, lost_blocks_);
    queued_bytes_ = 0;
  }
  const Bytes own = own_.take();
  if (!own.empty()) read({0, {}, own});
  for (const Block& block : blocks) read(block);
  if (lost != 0) tracks_of(0).drop(lost, Clock::now());
  write();
}

void TimelineWriter::read(const Block& block) {
  TimelineTracks& tracks = tracks_of(block.from);
  if (block.from != 0) tracks.set_clock(block.clock);
  bool closed = false;
  try {
    closed = tracks.add(block.bytes);
  } catch (const PeerLostError& error) {
    closed = true;  // it may have said so in what is lost; stop() does not wait for this rank
    if (!std::exchange(warned_, true)) {
      log(LogLevel::kWarning,
          "the timeline misses events of rank " + std::to_string(block.from) + ": " + error.what());
    }
  }
  if (!closed) return;
  const MutexLock lock(mutex_);
  recording_.erase(block.from);
  changed_.notify_all();
}

void TimelineWriter::write() {
  if (ended_) return records_.clear();
  std::size_t size = size_ + kReserve;
  std::size_t fitting = 0;
  for (; fitting < records_.size(); ++fitting) {
    size += records_[fitting].size() + kFirst.size();
    if (size > options_.max_bytes) break;
  }
  const bool full = fitting < records_.size();
  records_.resize(fitting);
  if (full) records_.push_back(full_record());
  if (!append() || (full && !write_all(file_, kClosing))) return end(std::strerror(errno));
  if (full) {
    end("it has reached its limit of " + std::to_string(options_.max_bytes) +
        " bytes (HVD_TIMELINE_MAX_MB)");
  }
}

// False when the system refused (errno says why).
bool TimelineWriter::append() {
  std::string text;
  for (const std::string& record : records_) {
    text += size_ + text.size() == 0 ? kFirst : kNext;
    text += record;
  }
  records_.clear();
  size_ += text.size();
  return write_all(file_, text);
}

std::string TimelineWriter::full_record() const {
  const auto at = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin_);
  return R"({"name":"TIMELINE_FULL","ph":"i","pid":0,"tid":0,"ts":)" + std::to_string(at.count()) +
         R"(,"s":"g","args":{"limit_bytes":)" + std::to_string(options_.max_bytes) + "}}";
}

void TimelineWriter::end(const std::string& why) {
  log(LogLevel::kWarning, "the timeline '" + path_ + "' ends here: " + why);
  const MutexLock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

Timeline::Timeline(Rank rank, const TimelineOptions& options)
    : rank_(rank), options_(options), recorder_(options.queue_limit) {}

Timeline::~Timeline() = default;

void Timeline::start(const std::string& path, std::optional<bool> mark_cycles) {
  if (rank_ != 0) return;
  const MutexLock one_at_a_time(control_);
  if (writer()) {
    throw InvalidArgumentError("start_timeline('" + path + "'): a timeline is being recorded");
  }
  TimelineOptions options = options_;
  options.mark_cycles = mark_cycles.value_or(options_.mark_cycles);
  auto begun = std::make_shared<TimelineWriter>(path, options, recorder_);
  {
    const MutexLock lock(mutex_);
    writer_ = std::move(begun);
  }
  record(true);
  wanted_ = true;
}

void Timeline::stop() {
  const MutexLock one_at_a_time(control_);
  const auto ending = writer();
  if (!ending) return;
  wanted_ = false;
  record(false);
  if (!job_ended_) ending->wait_for_others(Clock::now() + kTimelineLimit);
  {
    const MutexLock lock(mutex_);
    writer_.reset();
  }
  ending->finish();
}

void Timeline::record(bool on) {
  recording_ = on;
  recorder_.record(on);
}

std::shared_ptr<TimelineWriter> Timeline::writer() const {
  const MutexLock lock(mutex_);
  return writer_;
}

void Timeline::submitted(const SubmissionInfo& submission) {
  if (recording_) recorder_.submitted(submission);
}

void Timeline::finished(const BatchInfo& batch) {
  if (recording_) recorder_.finished(batch);
}

void Timeline::failed(std::uint64_t, std::string_view name, const Status& why, TimePoint at) {
  if (recording_) recorder_.failed(name, why, at);
}

void Timeline::stopped(const Status&, bool) {
  job_ended_ = true;
}

bool Timeline::wants_observed() const {
  if (!wanted_) return false;
  const auto current = writer();
  return current && !current->ended();
}

void Timeline::observed(bool on) {
  if (rank_ != 0) record(on);
}

void Timeline::collect(Bytes& out) {
  const Bytes block = recorder_.take();
  out.insert(out.end(), block.begin(), block.end());
}

void Timeline::receive(const Observation& observation) {
  if (const auto current = writer()) {
    current->add(observation.from, observation.clock.value_or(ClockEstimate{}), observation.bytes);
  }
}

}  // namespace hvd::engine
