#include "core/runtime/timeline_tracks.h"

#include <string_view>

#include "core/runtime/json_string.h"

namespace hvd {
namespace {

using std::chrono::nanoseconds;

std::string kind_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllreduce:
      return "ALLREDUCE";
    case CollectiveKind::kBroadcast:
      return "BROADCAST";
    case CollectiveKind::kAllgather:
      return "ALLGATHER";
  }
  return "UNKNOWN";
}

// The format counts in microseconds, with a fraction; integers keep locales out of it.
std::string microseconds(nanoseconds time) {
  const std::int64_t count = time.count() > 0 ? time.count() : 0;
  const std::string fraction = std::to_string(1000 + count % 1000);
  return std::to_string(count / 1000) + "." + fraction.substr(1);
}

std::string batch_args(const TimelineEvent& event) {
  return R"("batch":)" + std::to_string(event.batch) + R"(,"tensors":)" +
         std::to_string(event.names.size()) + R"(,"bytes":)" + std::to_string(event.bytes) +
         R"(,"dtype":")" + std::string(name_of(event.dtype)) + '"';
}

}  // namespace

void TimelineTracks::open(Records& records) const {
  records.push_back(head("process_name", 'M', 0) + R"(,"args":{"name":"rank )" +
                    std::to_string(rank_) + R"("}})");
}

// The beginning of a record: everything that all types have in common.
std::string TimelineTracks::head(const std::string& name, char type, int track) const {
  return R"({"name":)" + json_string(name) + R"(,"ph":")" + type + R"(","pid":)" +
         std::to_string(rank_) + R"(,"tid":)" + std::to_string(track);
}

// The phase that the track is in, ended at `end`.
std::string TimelineTracks::span(const Track& track, nanoseconds end,
                                 const std::string& args) const {
  return head(name_of_phase(track), 'X', track.number) + R"(,"ts":)" + microseconds(track.since) +
         R"(,"dur":)" + microseconds(end - track.since) + R"(,"args":{)" + args + "}}";
}

TimelineTracks::Track& TimelineTracks::track_of(const std::string& name, Records& records) {
  const auto [it, is_new] = tracks_.try_emplace(name);
  if (is_new) {
    it->second.number = static_cast<int>(tracks_.size());
    records.push_back(head("thread_name", 'M', it->second.number) + R"(,"args":{"name":)" +
                      json_string(name) + "}}");
  }
  return it->second;
}

std::string TimelineTracks::name_of_phase(const Track& track) {
  switch (track.phase) {
    case Phase::kNegotiating:
      return track.collective ? "NEGOTIATE_" + kind_name(*track.collective) : "NEGOTIATE";
    case Phase::kQueued:
      return "QUEUE";
    default:
      return kind_name(track.collective.value_or(CollectiveKind::kAllreduce));
  }
}

// Ends the phase `from`, if the track is in it, and begins the next one.
void TimelineTracks::move_to(Phase next, Phase from, Track& track, const TimelineEvent& event,
                             Records& records) {
  track.collective.reset();
  if (event.kind != TimelineEvent::Kind::kSubmitted) track.collective = event.collective;
  if (track.phase == from && from != Phase::kNone) {
    const std::string args = from == Phase::kRunning ? batch_args(event) : "";
    records.push_back(span(track, event.at, args));
  }
  track.phase = next;
  track.since = event.at;
}

void TimelineTracks::fail(Track& track, const TimelineEvent& event, Records& records) {
  const std::string why = R"("error":)" + json_string(event.why);
  records.push_back(head("FAILED", 'i', track.number) + R"(,"ts":)" + microseconds(event.at) +
                    R"(,"s":"t","args":{)" + why + "}}");
  if (track.phase != Phase::kNone) records.push_back(span(track, event.at, why));
  track.phase = Phase::kNone;
}

void TimelineTracks::apply(const TimelineEvent& event, Records& records) {
  for (const std::string& name : event.names) {
    Track& track = track_of(name, records);
    switch (event.kind) {
      case TimelineEvent::Kind::kSubmitted:
        move_to(Phase::kNegotiating, Phase::kNone, track, event, records);
        break;
      case TimelineEvent::Kind::kNegotiated:
        move_to(Phase::kQueued, Phase::kNegotiating, track, event, records);
        break;
      case TimelineEvent::Kind::kStarted:
        move_to(Phase::kRunning, Phase::kQueued, track, event, records);
        break;
      case TimelineEvent::Kind::kFinished:
        move_to(Phase::kNone, Phase::kRunning, track, event, records);
        break;
      case TimelineEvent::Kind::kFailed:
        fail(track, event, records);
        break;
    }
  }
}

void TimelineTracks::dropped(std::uint64_t count, nanoseconds at, Records& records) {
  records.push_back(head("DROPPED", 'i', 0) + R"(,"ts":)" + microseconds(at) +
                    R"(,"s":"p","args":{"events":)" + std::to_string(count) + "}}");
}

void TimelineTracks::close(nanoseconds at, Records& records) {
  for (auto& [name, track] : tracks_) {
    if (track.phase == Phase::kNone) continue;
    records.push_back(span(track, at, R"("unfinished":true)"));
    track.phase = Phase::kNone;
  }
}

}  // namespace hvd
