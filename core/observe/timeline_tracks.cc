#include "core/observe/timeline_tracks.h"

#include <algorithm>

#include "core/observe/json_string.h"

namespace hvd {
namespace {

using std::chrono::nanoseconds;
using Kind = TimelineEvent::Kind;

constexpr int kRankTrack = 0;  // what belongs to no tensor

// "allreduce" -> "ALLREDUCE", "add process set" -> "ADD_PROCESS_SET".
std::string name_in_trace(CollectiveKind kind) {
  std::string name = name_of(kind);
  for (char& letter : name) {
    letter = letter == ' ' ? '_' : static_cast<char>(letter - 'a' + 'A');
  }
  return name;
}

// The format counts in microseconds, with a fraction; integers keep locales out of it.
std::string in_microseconds(std::int64_t count) {
  const std::string fraction = std::to_string(1000 + std::abs(count) % 1000);
  return (count < 0 ? "-" : "") + std::to_string(std::abs(count) / 1000) + "." + fraction.substr(1);
}

std::string batch_args(const TimelineEvent& event) {
  return R"("batch":)" + std::to_string(event.batch) + R"(,"tensors":)" +
         std::to_string(event.names.size()) + R"(,"bytes":)" + std::to_string(event.bytes) +
         R"(,"packed_bytes":)" + std::to_string(event.packed_bytes) + R"(,"dtype":")" +
         std::string(name_of(event.dtype)) + R"(","process_set":)" + std::to_string(event.set);
}

}  // namespace

void TimelineTracks::open(Records& records) const {
  records.push_back(head("process_name", 'M', kRankTrack) + R"(,"args":{"name":"rank )" +
                    std::to_string(rank_) + R"("}})");
  records.push_back(head("process_sort_index", 'M', kRankTrack) + R"(,"args":{"sort_index":)" +
                    std::to_string(rank_) + "}}");
}

void TimelineTracks::set_clock(const ClockEstimate& clock, Records& records) {
  if (clock_) {
    const Duration moved = clock.offset - clock_->offset;
    const bool same = moved <= clock_->error && -moved <= clock_->error;
    if (same) return;
  }
  clock_ = clock;
  records.push_back(instant("CLOCK_OFFSET", kRankTrack, 0,
                            R"("offset_us":)" + in_microseconds(nanoseconds(clock.offset).count()) +
                                R"(,"error_us":)" +
                                in_microseconds(nanoseconds(clock.error).count())));
}

TimelineTracks::Nanoseconds TimelineTracks::trace_time(TimePoint here) const {
  const Duration offset = clock_ ? clock_->offset : Duration::zero();
  return nanoseconds(here + offset - begin_).count();
}

void TimelineTracks::apply(const TimelineEvent& event, Records& records) {
  switch (event.kind) {
    case Kind::kSubmitted:
      return submit(event, records);
    case Kind::kFinished:
      return finish(event, records);
    case Kind::kFailed:
      return fail(event, records);
    case Kind::kDropped:
      records.push_back(instant("DROPPED", kRankTrack, trace_time(event.at),
                                R"("events":)" + std::to_string(event.count)));
      return;
    case Kind::kClosed:
      return;
  }
}

void TimelineTracks::submit(const TimelineEvent& event, Records& records) {
  const TimelineEvent::Name& name = event.names.front();
  Track& track = track_of(name, records);
  track.negotiations.push_back(
      {event.collective, event.at, name.automatic ? R"("name":)" + json_string(name.text) : ""});
  if (track.negotiations.size() == 1) begin_negotiating(track, records);
}

void TimelineTracks::begin_negotiating(Track& track, Records& records) const {
  if (track.negotiations.empty()) return;
  const Negotiation& next = track.negotiations.front();
  track.end = std::max(track.end, trace_time(next.submitted));
  records.push_back(head("NEGOTIATE_" + name_in_trace(next.collective), 'B', track.number) +
                    R"(,"ts":)" + in_microseconds(track.end) + R"(,"args":{)" + next.args + "}}");
}

void TimelineTracks::end_negotiating(Track& track, Nanoseconds at, const std::string& args,
                                     Records& records) const {
  if (track.negotiations.empty()) return;
  const std::string name = name_in_trace(track.negotiations.front().collective);
  track.end = std::max(track.end, at);
  records.push_back(head("NEGOTIATE_" + name, 'E', track.number) + R"(,"ts":)" +
                    in_microseconds(track.end) + R"(,"args":{)" + args + "}}");
  track.negotiations.pop_front();
}

// The newest that was submitted before the batch was negotiated; of older ones the end was dropped.
// True if there is one.
bool TimelineTracks::end_negotiating_of(Track& track, const TimelineEvent& batch,
                                        Records& records) const {
  const std::deque<Negotiation>& all = track.negotiations;
  while (all.size() > 1 && all[1].submitted <= batch.negotiated) {
    end_negotiating(track, track.end, R"("unfinished":true)", records);
    begin_negotiating(track, records);
  }
  if (all.empty() || all.front().submitted > batch.negotiated) return false;
  end_negotiating(track, trace_time(batch.negotiated), "", records);
  return true;
}

void TimelineTracks::finish(const TimelineEvent& event, Records& records) {
  const std::string args = batch_args(event);
  if (mark_cycles_) {
    records.push_back(instant("CYCLE_START", kRankTrack, trace_time(event.negotiated),
                              R"("batch":)" + std::to_string(event.batch)));
  }
  for (const TimelineEvent::Name& name : event.names) {
    Track& track = track_of(name, records);
    const bool ended = end_negotiating_of(track, event, records);
    show_batch(track, event, args, records);
    if (ended) begin_negotiating(track, records);
    if (name.automatic) release(name);
  }
}

void TimelineTracks::show_batch(Track& track, const TimelineEvent& event, const std::string& args,
                                Records& records) const {
  const Nanoseconds queued = std::max(track.end, trace_time(event.negotiated));
  const Nanoseconds started = std::max(queued, trace_time(event.started));
  const Nanoseconds finished = std::max(started, trace_time(event.at));
  const Nanoseconds packed = std::min(finished, started + nanoseconds(event.packing).count());
  const Nanoseconds unpacking = std::max(packed, finished - nanoseconds(event.unpacking).count());
  track.end = finished;
  records.push_back(span("QUEUE", track, queued, started, ""));
  records.push_back(span(name_in_trace(event.collective), track, started, finished, args));
  if (packed != started) records.push_back(span("PACK", track, started, packed, ""));
  if (unpacking != finished) records.push_back(span("UNPACK", track, unpacking, finished, ""));
}

void TimelineTracks::fail(const TimelineEvent& event, Records& records) {
  const TimelineEvent::Name& name = event.names.front();
  Track& track = track_of(name, records);
  const std::string args = R"("error":)" + json_string(event.why);
  const Nanoseconds at = std::max(track.end, trace_time(event.at));
  records.push_back(instant("FAILED", track.number, at, args));
  if (track.negotiations.size() > 1) {
    track.negotiations.pop_back();  // what was submitted before is on the device
  } else {
    end_negotiating(track, at, args, records);
  }
  release(name);
}

void TimelineTracks::close(TimePoint now, Records& records) {
  const Nanoseconds end = nanoseconds(now - begin_).count();
  const auto close_track = [&](Track& track) {
    while (!track.negotiations.empty()) {
      end_negotiating(track, end, R"("unfinished":true)", records);
      begin_negotiating(track, records);
    }
  };
  for (auto& [name, track] : tracks_) close_track(track);
  for (Track& track : lanes_) close_track(track);
}

TimelineTracks::Track& TimelineTracks::track_of(const TimelineEvent::Name& name, Records& records) {
  const std::string text(name.text);
  // A failed name may be automatic although nobody says so.
  if (const auto lane = taken_.find(text); lane != taken_.end()) return lanes_[lane->second];
  if (!name.automatic) {
    const auto [it, is_new] = tracks_.try_emplace(text);
    return is_new ? new_track(it->second, text, records) : it->second;
  }
  if (free_lanes_.empty()) {
    free_lanes_.push_back(lanes_.size());
    lanes_.emplace_back();
    new_track(lanes_.back(), "unnamed " + std::to_string(lanes_.size()), records);
  }
  const std::size_t lane = free_lanes_.back();
  free_lanes_.pop_back();
  taken_.emplace(text, lane);
  return lanes_[lane];
}

TimelineTracks::Track& TimelineTracks::new_track(Track& track, const std::string& title,
                                                 Records& records) {
  track.number = ++track_count_;
  records.push_back(head("thread_name", 'M', track.number) + R"(,"args":{"name":)" +
                    json_string(title) + "}}");
  return track;
}

void TimelineTracks::release(const TimelineEvent::Name& name) {
  const auto lane = taken_.find(std::string(name.text));
  if (lane == taken_.end()) return;
  free_lanes_.push_back(lane->second);
  taken_.erase(lane);
}

// The beginning of a record: everything that all types have in common. Names are those of the
// program, with nothing to escape: those of tensors are in the arguments.
std::string TimelineTracks::head(const std::string& name, char type, int track) const {
  return R"({"name":")" + name + R"(","ph":")" + type + R"(","pid":)" + std::to_string(rank_) +
         R"(,"tid":)" + std::to_string(track);
}

std::string TimelineTracks::instant(const std::string& name, int track, Nanoseconds at,
                                    const std::string& args) const {
  return head(name, 'i', track) + R"(,"ts":)" + in_microseconds(std::max<Nanoseconds>(at, 0)) +
         R"(,"s":")" + (track == kRankTrack ? "p" : "t") + R"(","args":{)" + args + "}}";
}

std::string TimelineTracks::span(const std::string& name, const Track& track, Nanoseconds from,
                                 Nanoseconds to, const std::string& args) const {
  return head(name, 'X', track.number) + R"(,"ts":)" + in_microseconds(from) + R"(,"dur":)" +
         in_microseconds(to - from) + R"(,"args":{)" + args + "}}";
}

}  // namespace hvd
