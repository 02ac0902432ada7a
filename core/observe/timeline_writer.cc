#include "core/observe/timeline_writer.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/base/status.h"
#include "core/config/log.h"
#include "core/system/engine_thread.h"
#include "core/system/files.h"

namespace hvd {
namespace {

// Of blocks that wait for the writing thread.
constexpr std::size_t kQueueBytes = std::size_t{64} << 20;
// Left free for what is written after the last event.
constexpr std::size_t kReserve = 4096;
// Before the first record, and before each other.
constexpr std::string_view kFirst = "[\n";
constexpr std::string_view kNext = ",\n";
constexpr std::string_view kClosing = "\n]\n";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InvalidArgumentError("cannot write the timeline '" + path + "': " + why);
}

UniqueFd open_trace(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type != std::filesystem::file_type::regular &&
      type != std::filesystem::file_type::not_found) {
    // Whoever reads a pipe could hold up the end of the job.
    refuse(path, error ? error.message() : "it is not a regular file");
  }
  try {
    return open_output(path);
  } catch (const InvalidArgumentError& why) {
    refuse(path, why.what());
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

TimelineWriter::TimelineWriter(const std::string& path, const TimelineOptions& options,
                               TimelineRecorder& own)
    : path_(path), options_(options), own_(own), file_(open_trace(path)) {
  Records records;
  tracks_of(0, records);
  records.push_back(start_record());
  if (!append(records)) refuse(path, std::strerror(errno));
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
    ++lost_blocks_[from];
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

TimelineTracks& TimelineWriter::tracks_of(Rank rank, Records& records) {
  const auto [it, is_new] = tracks_.try_emplace(rank, rank, begin_, options_.mark_cycles);
  if (is_new) it->second.open(records);
  return it->second;
}

void TimelineWriter::write_until_stopped() {
  for (bool last = false; !last;) {
    last = sleep();
    write_queued();
  }
  Records records;
  for (auto& [rank, tracks] : tracks_) tracks.close(Clock::now(), records);
  write(std::move(records));
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
  std::map<Rank, std::uint64_t> lost;
  {
    const MutexLock lock(mutex_);
    blocks.swap(queue_);
    lost.swap(lost_blocks_);
    queued_bytes_ = 0;
  }
  const Bytes own = own_.take();
  Records records;
  if (!own.empty()) read({0, {}, own}, records);
  for (const Block& block : blocks) read(block, records);
  for (const auto& [rank, count] : lost) {
    TimelineEvent event;
    event.kind = TimelineEvent::Kind::kDropped;
    event.at = Clock::now();
    event.count = count;
    tracks_of(0, records).apply(event, records);
  }
  write(std::move(records));
}

void TimelineWriter::read(const Block& block, Records& records) {
  TimelineTracks& tracks = tracks_of(block.from, records);
  if (block.from != 0) tracks.set_clock(block.clock, records);
  bool closed = false;
  try {
    read_timeline(block.bytes, [&](const TimelineEvent& event) {
      closed |= event.kind == TimelineEvent::Kind::kClosed;
      tracks.apply(event, records);
    });
  } catch (const PeerLostError& error) {
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

void TimelineWriter::write(Records records) {
  if (ended_) return;
  std::size_t size = size_ + kReserve;
  std::size_t fitting = 0;
  for (; fitting < records.size(); ++fitting) {
    size += records[fitting].size() + kFirst.size();
    if (size > options_.max_bytes) break;
  }
  const bool full = fitting < records.size();
  records.resize(fitting);
  if (full) records.push_back(full_record());
  if (!append(records) || (full && !write_all(file_, kClosing))) return end(std::strerror(errno));
  if (full) {
    end("it has reached its limit of " + std::to_string(options_.max_bytes) +
        " bytes (HVD_TIMELINE_MAX_MB)");
  }
}

// False when the system refused (errno says why).
bool TimelineWriter::append(const Records& records) {
  std::string text;
  for (const std::string& record : records) {
    text += size_ + text.size() == 0 ? kFirst : kNext;
    text += record;
  }
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

}  // namespace hvd
