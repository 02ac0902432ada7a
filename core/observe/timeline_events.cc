#include "core/observe/timeline_events.h"

#include <utility>

namespace hvd {
namespace {

using Kind = TimelineEvent::Kind;

constexpr unsigned kKindCount = 5;

TimelineEvent::Name get_name(ByteReader& in, const std::vector<std::string>& names) {
  const auto number = in.get<std::uint32_t>();
  if (number >= names.size()) ByteReader::malformed("a name that is not in the block");
  return {names[number], in.get_flag()};
}

void get_batch(ByteReader& in, const std::vector<std::string>& names, TimelineEvent& event) {
  event.collective = in.get_enum<CollectiveKind>(kCollectiveKindCount);
  event.batch = in.get<std::uint64_t>();
  event.set = in.get<ProcessSetId>();
  event.dtype = in.get_enum<DType>(kDTypeCount);
  event.bytes = in.get<std::uint64_t>();
  event.packed_bytes = in.get<std::uint64_t>();
  event.packing = in.get_duration();
  event.unpacking = in.get_duration();
  event.negotiated = in.get_time();
  event.started = in.get_time();
  const std::size_t count = in.get_count(sizeof(std::uint32_t) + 1);
  for (std::size_t i = 0; i < count; ++i) event.names.push_back(get_name(in, names));
}

}  // namespace

void TimelineRecorder::record(bool on) {
  const MutexLock lock(mutex_);
  if (on_ && !on) put_head(Kind::kClosed, {});
  on_ = on;
}

void TimelineRecorder::submitted(const SubmissionInfo& submission) {
  const MutexLock lock(mutex_);
  if (!admit(1)) return;
  put_head(Kind::kSubmitted, submission.submitted);
  ByteWriter(events_).put(submission.kind);
  put_name(submission.name, submission.automatic_name);
}

void TimelineRecorder::finished(const BatchInfo& batch) {
  const MutexLock lock(mutex_);
  if (!admit(batch.members.size())) return;
  put_head(Kind::kFinished, batch.finished);
  ByteWriter out(events_);
  out.put(batch.kind);
  out.put(batch.number);
  out.put(batch.set);
  out.put(batch.dtype);
  out.put(std::uint64_t{batch.bytes});
  out.put(std::uint64_t{batch.packed_bytes});
  out.put_duration(batch.packing);
  out.put_duration(batch.unpacking);
  out.put_time(batch.negotiated);
  out.put_time(batch.started);
  out.put(static_cast<std::uint32_t>(batch.members.size()));
  for (const BatchMemberInfo& member : batch.members) {
    put_name(member.name, member.automatic_name);
  }
}

void TimelineRecorder::failed(std::string_view name, const Status& why, TimePoint at) {
  const MutexLock lock(mutex_);
  if (!admit(1)) return;
  put_head(Kind::kFailed, at);
  put_name(name, false);
  ByteWriter(events_).put_string(why.message());
}

Bytes TimelineRecorder::take() {
  const MutexLock lock(mutex_);
  Bytes block;
  if (events_.empty() && dropped_ == 0) return block;
  if (dropped_ != 0) {
    put_head(Kind::kDropped, Clock::now());
    ByteWriter(events_).put(std::exchange(dropped_, 0));
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

void TimelineRecorder::put_head(Kind kind, TimePoint at) {
  ByteWriter out(events_);
  out.put(kind);
  out.put_time(at);
}

void TimelineRecorder::put_name(std::string_view name, bool automatic) {
  const auto [it, is_new] =
      numbers_.try_emplace(std::string(name), static_cast<std::uint32_t>(numbers_.size()));
  if (is_new) ByteWriter(names_).put_string(name);
  ByteWriter out(events_);
  out.put(it->second);
  out.put(static_cast<std::uint8_t>(automatic ? 1 : 0));
}

void read_timeline(std::span<const std::byte> block,
                   const std::function<void(const TimelineEvent&)>& see) {
  ByteReader in(block);
  std::vector<std::string> names(in.get_count(sizeof(std::uint32_t)));
  for (std::string& name : names) name = in.get_string();
  while (in.remaining() != 0) {
    TimelineEvent event;
    std::string why;
    event.kind = in.get_enum<Kind>(kKindCount);
    event.at = in.get_time();
    switch (event.kind) {
      case Kind::kSubmitted:
        event.collective = in.get_enum<CollectiveKind>(kCollectiveKindCount);
        event.names.push_back(get_name(in, names));
        break;
      case Kind::kFinished:
        get_batch(in, names, event);
        break;
      case Kind::kFailed:
        event.names.push_back(get_name(in, names));
        why = in.get_string();
        event.why = why;
        break;
      case Kind::kDropped:
        event.count = in.get<std::uint64_t>();
        break;
      case Kind::kClosed:
        break;
    }
    see(event);
  }
}

}  // namespace hvd
