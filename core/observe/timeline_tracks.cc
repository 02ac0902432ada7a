#include "core/observe/timeline_tracks.h"

#include <algorithm>
#include <utility>

#include "core/observe/json_string.h"

namespace hvd::engine {
namespace {

using std::chrono::nanoseconds;

// An event in a block begins with its kind and a time. Part of the wire format.
enum class EventKind : std::uint8_t {
  kSubmitted = 0,  // a name
  kFinished = 1,   // a batch, when it finished
  kFailed = 2,     // a name
  kDropped = 3,    // how many tensor events did not find room
  kClosed = 4,     // this rank records no more
};
constexpr unsigned kEventKindCount = 5;

ByteWriter begin_event(Bytes& events, EventKind kind, TimePoint at) {
  ByteWriter out(events);
  out.put(kind);
  out.put_time(at);
  return out;
}

// `names` are those of the block.
BatchMemberInfo get_tensor(ByteReader& in, const std::vector<std::string>& names) {
  const auto number = in.get<std::uint32_t>();
  if (number >= names.size()) ByteReader::malformed("a name that is not in the block");
  return {.name = names[number], .automatic_name = in.get_flag()};
}

// Of a batch, besides its names and when it finished.
template <typename Io>
void serialize(Io& io, Fields<Io, BatchInfo>& batch) {
  io.choice(batch.kind, kCollectiveKindCount);
  io.number(batch.number);
  io.number(batch.set);
  io.choice(batch.dtype, kDTypeCount);
  io.number(batch.bytes);
  io.number(batch.packed_bytes);
  io.duration(batch.packing);
  io.duration(batch.unpacking);
  io.time(batch.negotiated);
  io.time(batch.started);
}

}  // namespace

void TimelineRecorder::record(bool on) {
  const MutexLock lock(mutex_);
  if (on_ && !on) begin_event(events_, EventKind::kClosed, {});
  on_ = on;
}

void TimelineRecorder::submitted(const SubmissionInfo& submission) {
  const MutexLock lock(mutex_);
  if (!admit(1)) return;
  begin_event(events_, EventKind::kSubmitted, submission.submitted).put(submission.kind);
  put_name(submission.name, submission.automatic_name);
}

void TimelineRecorder::finished(const BatchInfo& batch) {
  const MutexLock lock(mutex_);
  if (!admit(batch.members.size())) return;
  ByteWriter out = begin_event(events_, EventKind::kFinished, batch.finished);
  serialize(out, batch);
  out.put(static_cast<std::uint32_t>(batch.members.size()));
  for (const BatchMemberInfo& member : batch.members) {
    put_name(member.name, member.automatic_name);
  }
}

void TimelineRecorder::failed(std::string_view name, const Status& why, TimePoint at) {
  const MutexLock lock(mutex_);
  if (!admit(1)) return;
  ByteWriter out = begin_event(events_, EventKind::kFailed, at);
  put_name(name, false);
  out.put_string(why.message());
}

Bytes TimelineRecorder::take() {
  const MutexLock lock(mutex_);
  Bytes block;
  if (events_.empty() && dropped_ == 0) return block;
  if (dropped_ != 0) {
    begin_event(events_, EventKind::kDropped, Clock::now()).put(std::exchange(dropped_, 0));
  }
  ByteWriter(block).put(static_cast<std::uint32_t>(numbers_.size()));
  block.insert(block.end(), names_.begin(), names_.end());
  block.insert(block.end(), events_.begin(), events_.end());
  numbers_.clear();
  names_.clear();
  events_.clear();
  held_ = 0;
  return block;
}

bool TimelineRecorder::admit(std::size_t tensors) {
  if (!on_) return false;
  if (held_ + tensors > limit_) {
    dropped_ += tensors;
    return false;
  }
  held_ += tensors;
  return true;
}

void TimelineRecorder::put_name(std::string_view name, bool automatic) {
  const auto [it, is_new] =
      numbers_.try_emplace(std::string(name), static_cast<std::uint32_t>(numbers_.size()));
  if (is_new) ByteWriter(names_).put_string(name);
  ByteWriter out(events_);
  out.put(it->second);
  out.put_flag(automatic);
}

namespace {

constexpr int kRankTrack = 0;  // what belongs to no tensor
constexpr const char* kUnfinished = R"("unfinished":true)";

// "allreduce" -> "ALLREDUCE", "add process set" -> "ADD_PROCESS_SET".
std::string name_in_trace(CollectiveKind kind) {
  std::string name = name_of(kind);
  for (char& character : name) {
    character = character == ' ' ? '_' : static_cast<char>(character - 'a' + 'A');
  }
  return name;
}

// The format counts in microseconds, with a fraction; integers keep locales out of it.
std::string in_microseconds(std::int64_t count) {
  const std::string fraction = std::to_string(1000 + std::abs(count) % 1000);
  return (count < 0 ? "-" : "") + std::to_string(std::abs(count) / 1000) + "." + fraction.substr(1);
}

std::string in_microseconds(Duration time) {
  return in_microseconds(nanoseconds(time).count());
}

std::string in_braces(const std::string& args) {
  return R"(,"args":{)" + args + "}";
}

std::string batch_args(const BatchInfo& batch) {
  return R"("batch":)" + std::to_string(batch.number) + R"(,"tensors":)" +
         std::to_string(batch.members.size()) + R"(,"bytes":)" + std::to_string(batch.bytes) +
         R"(,"packed_bytes":)" + std::to_string(batch.packed_bytes) + R"(,"dtype":")" +
         std::string(name_of(batch.dtype)) + R"(","process_set":)" + std::to_string(batch.set);
}

}  // namespace

TimelineTracks::TimelineTracks(Rank rank, TimePoint begin, bool mark_cycles, Records& records)
    : rank_(rank), begin_(begin), mark_cycles_(mark_cycles), records_(records) {
  const std::string number = std::to_string(rank);
  record("process_name", 'M', kRankTrack, in_braces(R"("name":"rank )" + number + '"'));
  record("process_sort_index", 'M', kRankTrack, in_braces(R"("sort_index":)" + number));
}

void TimelineTracks::set_clock(const ClockEstimate& clock) {
  if (clock_) {
    const Duration moved = clock.offset - clock_->offset;
    const bool same = moved <= clock_->error && -moved <= clock_->error;
    if (same) return;
  }
  clock_ = clock;
  instant("CLOCK_OFFSET", kRankTrack, 0,
          R"("offset_us":)" + in_microseconds(clock.offset) + R"(,"error_us":)" +
              in_microseconds(clock.error));
}

TimelineTracks::Nanoseconds TimelineTracks::trace_time(TimePoint here) const {
  const Duration offset = clock_ ? clock_->offset : Duration::zero();
  return nanoseconds(here + offset - begin_).count();
}

bool TimelineTracks::add(std::span<const std::byte> block) {
  ByteReader in(block);
  std::vector<std::string> names(in.get_count(sizeof(std::uint32_t)));
  for (std::string& name : names) name = in.get_string();
  bool closed = false;
  while (in.remaining() != 0) {
    const auto event = in.get_enum<EventKind>(kEventKindCount);
    const TimePoint at = in.get_time();
    if (event == EventKind::kSubmitted) {
      const auto kind = in.get_enum<CollectiveKind>(kCollectiveKindCount);
      submit(get_tensor(in, names), kind, at);
    } else if (event == EventKind::kFinished) {
      BatchInfo batch;
      batch.finished = at;
      serialize(in, batch);
      in.list(batch.members, sizeof(std::uint32_t) + 1,
              [&](BatchMemberInfo& tensor) { tensor = get_tensor(in, names); });
      finish(batch);
    } else if (event == EventKind::kFailed) {
      const BatchMemberInfo tensor = get_tensor(in, names);
      fail(tensor, in.get_string(), at);
    } else if (event == EventKind::kDropped) {
      drop(in.get<std::uint64_t>(), at);
    } else {
      closed = true;
    }
  }
  return closed;
}

void TimelineTracks::drop(std::uint64_t events, TimePoint at) {
  instant("DROPPED", kRankTrack, trace_time(at), R"("events":)" + std::to_string(events));
}

void TimelineTracks::submit(const BatchMemberInfo& tensor, CollectiveKind kind, TimePoint at) {
  Track& track = track_of(tensor);
  track.negotiations.push_back(
      {kind, at, tensor.automatic_name ? R"("name":)" + json_string(tensor.name) : ""});
  if (track.negotiations.size() == 1) begin_negotiating(track);
}

void TimelineTracks::begin_negotiating(Track& track) {
  if (track.negotiations.empty()) return;
  const Negotiation& next = track.negotiations.front();
  track.end = std::max(track.end, trace_time(next.submitted));
  record("NEGOTIATE_" + name_in_trace(next.collective), 'B', track.number,
         R"(,"ts":)" + in_microseconds(track.end) + in_braces(next.args));
}

void TimelineTracks::end_negotiating(Track& track, Nanoseconds at, const std::string& args) {
  if (track.negotiations.empty()) return;
  track.end = std::max(track.end, at);
  record("NEGOTIATE_" + name_in_trace(track.negotiations.front().collective), 'E', track.number,
         R"(,"ts":)" + in_microseconds(track.end) + in_braces(args));
  track.negotiations.pop_front();
}

// The newest that was submitted before the batch was negotiated; of older ones the end was dropped.
// True if there is one.
bool TimelineTracks::end_negotiating_of(Track& track, TimePoint negotiated) {
  const std::deque<Negotiation>& all = track.negotiations;
  while (all.size() > 1 && all[1].submitted <= negotiated) {
    end_negotiating(track, track.end, kUnfinished);
    begin_negotiating(track);
  }
  if (all.empty() || all.front().submitted > negotiated) return false;
  end_negotiating(track, trace_time(negotiated), "");
  return true;
}

void TimelineTracks::finish(const BatchInfo& batch) {
  const std::string args = batch_args(batch);
  if (mark_cycles_) {
    instant("CYCLE_START", kRankTrack, trace_time(batch.negotiated),
            R"("batch":)" + std::to_string(batch.number));
  }
  for (const BatchMemberInfo& tensor : batch.members) {
    Track& track = track_of(tensor);
    const bool ended = end_negotiating_of(track, batch.negotiated);
    show_batch(track, batch, args);
    if (ended) begin_negotiating(track);
    if (tensor.automatic_name) release(tensor);
  }
}

void TimelineTracks::show_batch(Track& track, const BatchInfo& batch, const std::string& args) {
  const Nanoseconds queued = std::max(track.end, trace_time(batch.negotiated));
  const Nanoseconds started = std::max(queued, trace_time(batch.started));
  const Nanoseconds finished = std::max(started, trace_time(batch.finished));
  const Nanoseconds packed = std::min(finished, started + nanoseconds(batch.packing).count());
  const Nanoseconds unpacking = std::max(packed, finished - nanoseconds(batch.unpacking).count());
  track.end = finished;
  span("QUEUE", track, queued, started);
  span(name_in_trace(batch.kind), track, started, finished, args);
  if (packed != started) span("PACK", track, started, packed);
  if (unpacking != finished) span("UNPACK", track, unpacking, finished);
}

void TimelineTracks::fail(const BatchMemberInfo& tensor, const std::string& why, TimePoint at) {
  Track& track = track_of(tensor);
  const std::string args = R"("error":)" + json_string(why);
  const Nanoseconds when = std::max(track.end, trace_time(at));
  instant("FAILED", track.number, when, args);
  if (track.negotiations.size() > 1) {
    track.negotiations.pop_back();  // what was submitted before is on the device
  } else {
    end_negotiating(track, when, args);
  }
  release(tensor);
}

void TimelineTracks::close(TimePoint now) {
  const Nanoseconds end = nanoseconds(now - begin_).count();
  const auto close_track = [&](Track& track) {
    while (!track.negotiations.empty()) {
      end_negotiating(track, end, kUnfinished);
      begin_negotiating(track);
    }
  };
  for (auto& [name, track] : tracks_) close_track(track);
  for (Track& track : lanes_) close_track(track);
}

TimelineTracks::Track& TimelineTracks::track_of(const BatchMemberInfo& tensor) {
  const std::string name(tensor.name);
  // A failed name may be automatic without being marked so.
  if (const auto lane = taken_.find(name); lane != taken_.end()) return lanes_[lane->second];
  if (!tensor.automatic_name) {
    const auto [it, is_new] = tracks_.try_emplace(name);
    if (is_new) name_track(it->second, name);
    return it->second;
  }
  if (free_lanes_.empty()) {
    free_lanes_.push_back(lanes_.size());
    lanes_.emplace_back();
    name_track(lanes_.back(), "unnamed " + std::to_string(lanes_.size()));
  }
  const std::size_t lane = free_lanes_.back();
  free_lanes_.pop_back();
  taken_.emplace(name, lane);
  return lanes_[lane];
}

void TimelineTracks::name_track(Track& track, const std::string& title) {
  track.number = ++track_count_;
  record("thread_name", 'M', track.number, in_braces(R"("name":)" + json_string(title)));
}

void TimelineTracks::release(const BatchMemberInfo& tensor) {
  const auto lane = taken_.find(std::string(tensor.name));
  if (lane == taken_.end()) return;
  free_lanes_.push_back(lane->second);
  taken_.erase(lane);
}

// Names are those of the program, with nothing to escape: those of tensors are in the arguments.
void TimelineTracks::record(const std::string& name, char type, int track,
                            const std::string& rest) {
  records_.push_back(R"({"name":")" + name + R"(","ph":")" + type + R"(","pid":)" +
                     std::to_string(rank_) + R"(,"tid":)" + std::to_string(track) + rest + '}');
}

void TimelineTracks::instant(const std::string& name, int track, Nanoseconds at,
                             const std::string& args) {
  record(name, 'i', track,
         R"(,"ts":)" + in_microseconds(std::max<Nanoseconds>(at, 0)) + R"(,"s":")" +
             (track == kRankTrack ? "p" : "t") + '"' + in_braces(args));
}

void TimelineTracks::span(const std::string& name, const Track& track, Nanoseconds from,
                          Nanoseconds to, const std::string& args) {
  record(name, 'X', track.number,
         R"(,"ts":)" + in_microseconds(from) + R"(,"dur":)" + in_microseconds(to - from) +
             in_braces(args));
}

}  // namespace hvd::engine
