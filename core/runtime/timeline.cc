#include "core/runtime/timeline.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/log.h"

namespace hvd {

Timeline::Timeline(const std::string& path, const TimelineOptions& options)
    : path_(path), options_(options), file_(path), tracks_(options.rank) {
  writer_ = std::thread([this] { write_until_stopped(); });
}

Timeline::~Timeline() {
  stopping_ = true;
  bell_.ring();
  writer_.join();
}

void Timeline::submitted(std::string_view name) {
  push({.kind = TimelineEvent::Kind::kSubmitted, .at = now(), .names = {std::string(name)}});
}

void Timeline::negotiated(const BatchInfo& batch) {
  push_batch(TimelineEvent::Kind::kNegotiated, batch);
}

void Timeline::started(const BatchInfo& batch) {
  push_batch(TimelineEvent::Kind::kStarted, batch);
}

void Timeline::finished(const BatchInfo& batch) {
  push_batch(TimelineEvent::Kind::kFinished, batch);
}

void Timeline::failed(std::string_view name, const Status& why) {
  push({.kind = TimelineEvent::Kind::kFailed,
        .at = now(),
        .names = {std::string(name)},
        .why = why.message()});
}

void Timeline::push_batch(TimelineEvent::Kind kind, const BatchInfo& batch) {
  push({.kind = kind,
        .at = now(),
        .names = {batch.names.begin(), batch.names.end()},
        .batch = batch.number,
        .collective = batch.kind,
        .dtype = batch.dtype,
        .bytes = batch.bytes});
}

// Wakes nobody: the writer comes by itself, and the observed thread makes no system call.
void Timeline::push(TimelineEvent event) {
  const std::size_t count = event.names.size();
  const MutexLock lock(mutex_);
  if (queued_ + count > options_.queue_limit) {
    dropped_ += count;
    return;
  }
  queued_ += count;
  queue_.push_back(std::move(event));
}

void Timeline::write_until_stopped() {
  Records records;
  tracks_.open(records);
  write(records);
  while (true) {
    const std::uint32_t seen = bell_.rings();
    const bool last = stopping_;
    write_queued();
    if (last) break;
    bell_.wait_until(seen, Clock::now() + options_.flush_interval);
  }
  records.clear();
  tracks_.close(now(), records);
  write(records);
}

void Timeline::write_queued() {
  std::vector<TimelineEvent> events;
  std::uint64_t dropped = 0;
  {
    const MutexLock lock(mutex_);
    events.swap(queue_);
    queued_ = 0;
    dropped = std::exchange(dropped_, 0);
  }
  Records records;
  for (const TimelineEvent& event : events) tracks_.apply(event, records);
  if (dropped != 0) tracks_.dropped(dropped, now(), records);
  write(records);
}

void Timeline::write(const Records& records) {
  if (broken_ || file_.append(records)) return;
  broken_ = true;
  log(LogLevel::kWarning, "the timeline '" + path_ + "' ends here: " + std::strerror(errno));
}

}  // namespace hvd
