#include "core/runtime/executor.h"

#include <string>
#include <utility>

#include "core/runtime/current_status.h"

namespace hvd {
namespace {

constexpr Duration kDeviceLimit = std::chrono::seconds(1);

}  // namespace

Executor::Executor(std::span<const std::unique_ptr<Collective>> collectives, Topology topology,
                   TensorTable& table, Observers& observers, Doorbell& bell)
    : collectives_(collectives),
      topology_(topology),
      table_(table),
      observers_(observers),
      completion_([this](Batch& batch) { finish_handles(batch); }, bell) {}

void Executor::run(RunBatch plan) {
  if (!failure_.ok()) return;
  try {
    std::vector<InFlightPtr> members;
    members.reserve(plan.members.size());
    for (const BatchMember& member : plan.members) members.push_back(table_.find(member.ticket));
    Collective& collective = collective_for(plan.device);
    waiting_.push_back(
        std::make_unique<Batch>(std::move(plan), std::move(members), collective, topology_));
    ++unfinished_;
    observers_.negotiated(*waiting_.back());
  } catch (...) {
    fail(current_status());
  }
}

bool Executor::advance() {
  if (!failure_.ok()) return false;
  try {
    bool moved = take_ended();
    moved |= poll_running();
    moved |= start_waiting();
    return moved;
  } catch (...) {
    fail(current_status());
    return true;
  }
}

std::optional<std::uint64_t> Executor::next_finished() {
  if (finished_.empty()) return std::nullopt;
  const std::uint64_t number = finished_.front();
  finished_.pop_front();
  return number;
}

void Executor::abort() noexcept {
  for (const auto& collective : collectives_) collective->abort();
  running_.clear();
  waiting_.clear();
  completion_.drain(kDeviceLimit);
  while (completion_.next_ended()) {
  }
  unfinished_ = 0;
}

Collective& Executor::collective_for(DeviceKind device) const {
  for (const auto& collective : collectives_) {
    if (collective->device() == device) return *collective;
  }
  throw InternalError("a batch was negotiated for a device that this rank has no backend for");
}

// The first batch that waits blocks the others until all its operations are started: see
// Batch::all_started().
bool Executor::start_waiting() {
  bool moved = false;
  while (!waiting_.empty()) {
    Batch& batch = *waiting_.front();
    if (!batch.started()) {
      observers_.started(batch);
      batch.start();
      moved = true;
    }
    const bool finished = batch.advance();
    if (!batch.all_started()) return moved;
    std::unique_ptr<Batch> started = std::move(waiting_.front());
    waiting_.pop_front();
    moved = true;
    if (finished) {
      finished_here(std::move(started));
    } else {
      running_.push_back(std::move(started));
    }
  }
  return moved;
}

bool Executor::poll_running() {
  bool moved = false;
  for (std::unique_ptr<Batch>& batch : running_) {
    if (!batch->advance()) continue;
    finished_here(std::move(batch));
    moved = true;
  }
  if (moved) std::erase(running_, nullptr);
  return moved;
}

bool Executor::take_ended() {
  bool moved = false;
  while (const auto ended = completion_.next_ended()) {
    moved = true;
    ended->status.throw_if_error();
    count_finished(*ended->batch);
  }
  return moved;
}

void Executor::finished_here(std::unique_ptr<Batch> batch) {
  Fence fence = batch->fence();
  if (!fence.reached()) {
    completion_.add(std::move(batch), std::move(fence));
    return;
  }
  fence.wait();  // throws if the device failed
  finish_handles(*batch);
  count_finished(*batch);
}

// On the coordinator or on the completion thread.
void Executor::finish_handles(Batch& batch) {
  batch.cancel();
  for (std::size_t i = 0; i < batch.members().size(); ++i) {
    InFlight& member = *batch.members()[i];
    if (!table_.remove(member.ticket)) continue;
    Submission& submission = member.submission;
    member.completion.finish(
        {}, batch.take_outcome(i),
        {std::move(submission.input.owner), std::move(submission.output.owner)});
  }
}

void Executor::count_finished(const Batch& batch) {
  observers_.finished(batch);
  finished_.push_back(batch.number());
  --unfinished_;
}

void Executor::fail(const Status& why) {
  failure_ = why;
  abort();
}

}  // namespace hvd
