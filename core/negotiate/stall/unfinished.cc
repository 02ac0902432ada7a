#include "core/negotiate/stall/unfinished.h"

#include <vector>

#include "core/base/clock.h"

namespace hvd::engine {
namespace {

constexpr std::size_t kBatchesInText = 4;
constexpr Duration kDrainWarning = std::chrono::seconds(2);

std::string text_of(const Device& device) {
  if (device.kind == DeviceKind::kCpu) return "the host";
  return "CUDA device " + std::to_string(device.index);
}

std::string describe(const UnfinishedBatch& batch, TimePoint now) {
  std::string text = std::string(name_of(batch.kind)) + " \"" + batch.name + "\"";
  if (batch.others > 0) text += " and " + std::to_string(batch.others) + " more";
  text += " on " + text_of(batch.device);
  if (batch.since) text += ", submitted " + seconds_text(now - *batch.since) + " ago";
  return text;
}

}  // namespace

std::string describe(std::span<const UnfinishedBatch> batches, TimePoint now) {
  std::string text;
  for (std::size_t i = 0; i < batches.size() && i < kBatchesInText; ++i) {
    text += (i == 0 ? "" : "; ") + describe(batches[i], now);
  }
  if (batches.size() > kBatchesInText) {
    text += "; and " + std::to_string(batches.size() - kBatchesInText) + " more batches";
  }
  return text;
}

BatchWatch::Findings BatchWatch::check(TimePoint now, std::span<const UnfinishedBatch> batches) {
  std::vector<Waiting> waiting;
  for (const UnfinishedBatch& batch : batches) waiting.push_back({batch.name, batch.number});
  const StallFindings found = monitor_.check(now, waiting);
  const auto not_done = [&](const Waiting& wait) {
    const auto batch = std::find_if(batches.begin(), batches.end(),
                                    [&](const auto& one) { return one.number == wait.round; });
    return describe(*batch, now) + ", has not ended for " + seconds_text(wait.held);
  };
  Findings findings;
  // They run in order: the first one holds up the others.
  if (!found.overdue.empty()) findings.warning = "stalled: " + not_done(found.overdue.front());
  if (found.hopeless) {
    findings.failure = {StatusCode::kStalled, "stalled, giving up: " + not_done(*found.hopeless)};
  }
  return findings;
}

Drain::Drain(TimePoint now, Duration most, Duration stall_limit) : begin_(now) {
  const Duration limit = stall_limit == Duration::zero() ? most : std::min(most, stall_limit);
  deadline_ = now + limit;
  warn_at_ = now + std::min(kDrainWarning, limit / 4);
}

std::optional<std::string> Drain::warning(TimePoint now, std::span<const UnfinishedBatch> batches) {
  if (now < warn_at_) return std::nullopt;
  warn_at_ = TimePoint::max();
  if (batches.empty()) return std::nullopt;
  return "shutting down waits up to " + seconds_text(deadline_ - begin_) +
         " for what is still running: " + describe(batches, now);
}

Status Drain::give_up(const Status& why, TimePoint now,
                      std::span<const UnfinishedBatch> batches) const {
  if (batches.empty()) return why;
  return {StatusCode::kStalled, why.message() + "; gave up after " + seconds_text(now - begin_) +
                                    " on what was still running: " + describe(batches, now)};
}

}  // namespace hvd::engine
