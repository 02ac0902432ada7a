#include "core/observe/observers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/deadlines.h"
#include "core/negotiate/messages/message.h"

namespace hvd::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr unsigned kNoteCount = 4;
constexpr Duration kCheckInterval = milliseconds(100);
constexpr Duration kAskAgain = milliseconds(100);

Duration collect_interval(int size) {
  return std::max<Duration>(milliseconds(100), microseconds(100) * size);
}

Duration ask_interval(int size) {
  return std::max<Duration>(std::chrono::seconds(1), milliseconds(1) * size);
}

std::string_view as_text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void put_clock(ByteWriter& out, const std::optional<ClockEstimate>& clock) {
  out.put(static_cast<std::uint8_t>(clock ? 1 : 0));
  if (!clock) return;
  out.put(std::int64_t{nanoseconds(clock->offset).count()});
  out.put(std::int64_t{nanoseconds(clock->error).count()});
}

std::optional<ClockEstimate> get_clock(ByteReader& in) {
  if (in.get<std::uint8_t>() == 0) return std::nullopt;
  ClockEstimate clock;
  clock.offset = nanoseconds(in.get<std::int64_t>());
  clock.error = nanoseconds(in.get<std::int64_t>());
  return clock;
}

}  // namespace

Observers::Observers(ObserverList observers, const Topology& topology, std::uint32_t epoch)
    : observers_(std::move(observers)),
      rank_(topology.rank),
      size_(topology.size),
      epoch_(epoch),
      alone_(observers_.empty() || topology.size == 1),
      talks_(root() ? static_cast<std::size_t>(topology.size) : 0) {}

void Observers::submitted(const SubmissionInfo& submission) {
  for (const auto& observer : observers_) observer->submitted(submission);
}

void Observers::negotiated(BatchInfo& batch) {
  tell(batch, batch.negotiated, &Observer::negotiated);
}

void Observers::started(BatchInfo& batch) {
  tell(batch, batch.started, &Observer::started);
}

void Observers::finished(BatchInfo& batch) {
  tell(batch, batch.finished, &Observer::finished);
  touched_ = true;
}

void Observers::tell(BatchInfo& batch, TimePoint& when, void (Observer::*event)(const BatchInfo&)) {
  if (observers_.empty()) return;
  when = Clock::now();
  for (const auto& observer : observers_) ((*observer).*event)(batch);
}

void Observers::failed(std::uint64_t ticket, std::string_view name, const Status& why) {
  if (observers_.empty()) return;
  const TimePoint now = Clock::now();
  for (const auto& observer : observers_) observer->failed(ticket, name, why, now);
  touched_ = true;
}

void Observers::stopped(const Status& why, bool orderly) {
  for (const auto& observer : observers_) observer->stopped(why, orderly);
}

bool Observers::wants_observed() const {
  return std::ranges::any_of(observers_, [](const auto& one) { return one->wants_observed(); });
}

void Observers::tick(TimePoint now, bool observed) {
  if (left_) return;
  const bool changed = std::exchange(observed_, observed) != observed;
  if (changed) {
    for (const auto& observer : observers_) observer->observed(observed);
  }
  if (alone_) return;
  if (root()) {
    next_check_ = now + kCheckInterval;
    return;
  }
  if (observed_ && (changed || now >= next_ask_)) ask(now);
  const bool ends = changed && !observed_;
  // An observed rank waits for its first measurement: times alone say nothing to rank 0.
  if (ends || (touched_ && now >= next_collect_ && (!observed_ || clock_.at(now)))) {
    collect(now, Note::kCollected);
  }
}

void Observers::leave(TimePoint now, bool orderly) {
  if (std::exchange(left_, true) || alone_) return;
  settle_deadline_ = orderly ? now + kLastReportsLimit : now;
  if (!root()) collect(now, Note::kFinalReport);
}

void Observers::collect(TimePoint now, Note note) {
  touched_ = false;
  next_collect_ = now + collect_interval(size_);
  Bytes message = begin(note);
  ByteWriter out(message);
  put_clock(out, clock_.at(now));
  out.put(static_cast<std::uint32_t>(observers_.size()));
  bool empty = true;
  for (const auto& observer : observers_) {
    Bytes collected;
    observer->collect(collected);
    empty &= collected.empty();
    out.put_string(as_text(collected));
  }
  if (empty && reported_ && note == Note::kCollected) return;
  reported_ = true;
  outbox_.push_back({0, std::move(message)});
}

void Observers::receive(Rank from, std::span<const std::byte> message, TimePoint now) {
  if (observers_.empty()) return;
  ByteReader in(message);
  if (deserialize<MessageHeader>(in).epoch != epoch_) return;
  if (from < 0 || from >= size_ || from == rank_) ByteReader::malformed("observation of no rank");
  const Note note = in.get_enum<Note>(kNoteCount);
  if (root() == (note == Note::kAnswer)) ByteReader::malformed("an observation for another rank");
  if (note == Note::kAsk) return answer(from, in, now);
  if (note == Note::kAnswer) return receive_answer(in, now);
  const auto sender = static_cast<std::size_t>(from);
  const bool talks = note == Note::kCollected;
  talking_ += static_cast<int>(talks) - static_cast<int>(talks_[sender]);
  talks_[sender] = talks;
  receive_collected(from, in);
}

void Observers::receive_collected(Rank from, ByteReader& in) {
  const auto clock = get_clock(in);
  const std::size_t count = in.get<std::uint32_t>();
  if (count > observers_.size()) ByteReader::malformed("of more observers than there are here");
  std::vector<std::string> sections;
  for (std::size_t i = 0; i < count; ++i) sections.push_back(in.get_string());
  in.expect_end();
  for (std::size_t i = 0; i < count; ++i) {
    if (sections[i].empty()) continue;
    observers_[i]->receive({from, clock, std::as_bytes(std::span(sections[i]))});
  }
}

void Observers::ask(TimePoint now) {
  next_ask_ = now + (clock_.full() ? ask_interval(size_) : kAskAgain);
  Bytes message = begin(Note::kAsk);
  ByteWriter out(message);
  out.put_time(now);
  outbox_.push_back({0, std::move(message)});
}

void Observers::answer(Rank to, ByteReader& in, TimePoint now) {
  const TimePoint asked = in.get_time();
  in.expect_end();
  Bytes message = begin(Note::kAnswer);
  ByteWriter out(message);
  out.put_time(asked);
  out.put_time(now);
  outbox_.push_back({to, std::move(message)});
}

void Observers::receive_answer(ByteReader& in, TimePoint now) {
  ClockSample sample;
  sample.asked = in.get_time();
  sample.answered = in.get_time();
  in.expect_end();
  sample.arrived = now;
  clock_.add(sample);
  if (observed_ && !left_ && !clock_.full()) ask(now);
}

void Observers::peer_lost(Rank rank) {
  if (!root()) return;
  const auto index = static_cast<std::size_t>(rank);
  talking_ -= static_cast<int>(talks_[index]);
  talks_[index] = false;
}

std::optional<OutgoingMessage> Observers::next_message() {
  if (outbox_.empty()) return std::nullopt;
  OutgoingMessage message = std::move(outbox_.front());
  outbox_.pop_front();
  return message;
}

std::optional<TimePoint> Observers::next_deadline() const {
  if (alone_) return std::nullopt;
  if (left_) return root() ? std::optional(settle_deadline_) : std::nullopt;
  if (root()) return observed_ ? std::optional(next_check_) : std::nullopt;
  std::optional<TimePoint> deadline;
  if (observed_) deadline = next_ask_;
  const bool may_collect = touched_ && (!observed_ || clock_.full());
  if (may_collect) deadline = deadline ? std::min(*deadline, next_collect_) : next_collect_;
  return deadline;
}

Bytes Observers::begin(Note note) const {
  Bytes message;
  ByteWriter out(message);
  serialize(out, MessageHeader{MessageKind::kObservation, epoch_});
  out.put(note);
  return message;
}

}  // namespace hvd::engine
