#include "core/runtime/observers.h"

#include <string>

#include "core/config/log.h"

namespace hvd {

Observers::Observers(ObserverList all, const Topology& topology, std::uint32_t epoch)
    : all_(std::move(all)), telemetry_(all_, topology, epoch) {}

void Observers::submitted(const InFlight& entry, TimePoint at) {
  if (all_.empty()) return;
  const Request& request = entry.submission.request;
  SubmissionInfo info{.ticket = entry.ticket,
                      .name = request.name,
                      .kind = request.kind,
                      .dtype = request.dtype,
                      .set = request.set,
                      .bytes = 0,
                      .automatic_name = request.automatic_name,
                      .submitted = at};
  for (const Part& part : entry.submission.parts) info.bytes += part.input.view.bytes();
  for (const auto& observer : all_) observer->submitted(info);
}

void Observers::negotiated(BatchInfo& batch) {
  tell(batch, batch.negotiated, &Observer::negotiated);
}

void Observers::started(BatchInfo& batch) {
  tell(batch, batch.started, &Observer::started);
}

void Observers::finished(BatchInfo& batch) {
  tell(batch, batch.finished, &Observer::finished);
  telemetry_.touch();
}

void Observers::tell(BatchInfo& batch, TimePoint& when, void (Observer::*event)(const BatchInfo&)) {
  if (all_.empty()) return;
  when = Clock::now();
  for (const auto& observer : all_) ((*observer).*event)(batch);
}

void Observers::failed(const InFlight& entry, const Status& why) {
  if (all_.empty()) return;
  const TimePoint now = Clock::now();
  for (const auto& observer : all_) observer->failed(entry.ticket, entry.name(), why, now);
  telemetry_.touch();
}

void Observers::stopped(const Status& why, bool orderly) {
  for (const auto& observer : all_) observer->stopped(why, orderly);
}

bool Observers::wants_observed() const {
  for (const auto& observer : all_) {
    if (observer->wants_observed()) return true;
  }
  return false;
}

void Observers::receive(Rank from, std::span<const std::byte> message, TimePoint now) {
  try {
    telemetry_.receive(from, message, now);
  } catch (const PeerLostError& error) {
    if (warned_) return;
    warned_ = true;
    log(LogLevel::kWarning,
        "what the observers of rank " + std::to_string(from) +
            " sent is not used, nor is what follows of its kind: " + error.what());
  }
}

}  // namespace hvd
