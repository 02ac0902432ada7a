#include "core/runtime/executor.h"

#include <string>
#include <utility>

#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/config/log.h"

namespace hvd::engine {
namespace {

// Perhaps no thread waits for it any more: whatever is called next throws this.
Status lost_on_device(const BatchInfo& batch, const Status& why) {
  std::string what = std::string(name_of(batch.kind)) + " '";
  what.append(batch.members.front().name).append("'");
  const std::size_t more = batch.members.size() - 1;
  if (more > 0) what += " and " + std::to_string(more) + " more";
  Status status(why.code(), what + " on the device: " + why.message());
  log(LogLevel::kError, status.message());
  return status;
}

}  // namespace

Executor::Executor(std::span<const std::unique_ptr<Collective>> world, Rank rank,
                   TensorTable& table, Observers& observers, Doorbell& bell, bool orders)
    : world_(world),
      rank_(rank),
      table_(table),
      observers_(observers),
      orders_(orders),
      completion_([this](Batch& batch) { finish_handles(batch); }, bell) {}

void Executor::add_set(const ProcessSetPtr& set) {
  try {
    for (const auto& collective : world_) add_port(set, *collective);
  } catch (...) {
    remove_set(set->id);
    throw;
  }
}

void Executor::add_port(const ProcessSetPtr& set, Collective& collective) {
  Port& port = ports_[{set->id, collective.device()}];
  port.collective = &collective;
  port.set = set;
  port.position = set->position_of(rank_);
  if (set->id == kWorldSet) return;
  port.owned = collective.subset(set->id, set->ranks);
  port.collective = port.owned.get();
}

void Executor::remove_set(ProcessSetId id) {
  for (const auto& collective : world_) {
    const auto it = ports_.find({id, collective->device()});
    if (it == ports_.end()) continue;
    it->second.removed = true;
    if (it->second.unfinished == 0) ports_.erase(it);
  }
}

void Executor::show_early(const InFlight& entry) {
  const Request& request = entry.submission.request;
  if (request.kind != CollectiveKind::kAllreduce || request.wire != WireFormat::kNone ||
      request.place.arena != 0) {
    return;
  }
  const PortKey key = {request.set, request.device};
  const auto port = ports_.find(key);
  if (port == ports_.end() || port->second.unfinished > 0) return;
  shown_ = {entry.ticket, key};
  port->second.collective->show_early(early_slices(entry.submission));
}

// Otherwise a submission of the same name that is not shown could be taken for this one.
void Executor::hide_early(Ticket ticket) noexcept {
  if (ticket != shown_.ticket) return;
  const auto port = ports_.find(shown_.port);
  if (port != ports_.end()) port->second.collective->hide_early();
}

void Executor::run(RunBatch plan) {
  if (!failure_.ok()) return;
  try {
    Port& port = port_for(plan.key);
    const PortKey lane = lane_of(plan.key);
    std::vector<InFlightPtr> members = table_.find(plan.members);
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i] != nullptr) continue;
      members[i] = identity_contribution(*plan.members[i].request, *port.set, port.position,
                                         *port.collective, port.scratch);
    }
    auto& waiting = waiting_[lane];
    waiting.push_back(std::make_unique<Batch>(std::move(plan), std::move(members), *port.collective,
                                              port.set, port.position));
    ++port.unfinished;
    ++unfinished_;
    observers_.negotiated(waiting.back()->info());
  } catch (...) {
    fail(current_status());
  }
}

bool Executor::advance(TimePoint now) {
  if (!failure_.ok()) return false;
  try {
    progress(now);
    bool moved = take_ended();
    moved |= poll_running();
    for (auto& [key, lane] : waiting_) moved |= start_waiting(lane);
    return moved;
  } catch (...) {
    fail(current_status());
    return true;
  }
}

bool Executor::busy(ProcessSetId set) const {
  return std::any_of(ports_.begin(), ports_.end(), [set](const auto& each) {
    return each.first.first == set && each.second.unfinished > 0;
  });
}

std::optional<RunBatch> Executor::next_finished() {
  if (finished_.empty()) return std::nullopt;
  RunBatch plan = std::move(finished_.front());
  finished_.pop_front();
  return plan;
}

std::vector<UnfinishedBatch> Executor::on_devices() const {
  std::vector<UnfinishedBatch> reports;
  for (const Batch* batch : on_devices_) reports.push_back(batch->unfinished());
  return reports;
}

std::vector<UnfinishedBatch> Executor::unfinished() const {
  std::vector<UnfinishedBatch> reports = on_devices();
  for (const BatchPtr& batch : running_) reports.push_back(batch->unfinished());
  for (const auto& [key, lane] : waiting_) {
    for (const BatchPtr& batch : lane) reports.push_back(batch->unfinished());
  }
  return reports;
}

void Executor::fail(const Status& why) noexcept {
  failure_ = why;
  for (const auto& collective : world_) collective->abort();
  for (BatchPtr& batch : running_) let_go(std::move(batch));
  running_.clear();
  for (auto& [key, lane] : waiting_) {
    for (BatchPtr& batch : lane) let_go(std::move(batch));
  }
  waiting_.clear();
  on_devices_.clear();
  completion_.drain(kDeviceLimit);
  while (auto ended = completion_.next_ended()) retire(*std::move(ended));
  unfinished_ = 0;
}

// The communicators of one asynchronous device share its queue: work that is enqueued in different
// orders on two ranks would wait for itself. So there the log's order holds across process sets.
Executor::PortKey Executor::lane_of(const FusionKey& key) {
  return {key.device == DeviceKind::kCpu ? key.set : kWorldSet, key.device};
}

Executor::Port& Executor::port_for(const FusionKey& key) {
  const auto it = ports_.find({key.set, key.device});
  if (it != ports_.end()) return it->second;
  throw InternalError("a batch was negotiated for process set " + std::to_string(key.set) +
                      " and a device, one of which this rank does not have");
}

// The first batch that waits blocks the others of its lane until all its operations are started:
// see Batch::all_started().
bool Executor::start_waiting(std::deque<BatchPtr>& lane) {
  bool moved = false;
  while (!lane.empty()) {
    Batch& batch = *lane.front();
    if (!batch.started()) {
      observers_.started(batch.info());
      batch.start();
      moved = true;
    }
    const bool finished = batch.advance();
    if (!batch.all_started()) return moved;
    BatchPtr started = std::move(lane.front());
    lane.pop_front();
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
  for (auto batch = running_.begin(); batch != running_.end();) {
    if (!(*batch)->advance()) {
      ++batch;
      continue;
    }
    BatchPtr finished = std::move(*batch);  // first out of the list: what follows may throw
    batch = running_.erase(batch);
    finished_here(std::move(finished));
    moved = true;
  }
  return moved;
}

void Executor::progress(TimePoint now) {
  for (const auto& collective : world_) {
    try {
      collective->progress(now);
    } catch (...) {
      if (on_devices_.empty() || collective->device() == DeviceKind::kCpu) throw;
      lost_on_device(on_devices_.front()->info(), current_status()).throw_if_error();
    }
  }
}

bool Executor::take_ended() {
  bool moved = false;
  while (auto ended = completion_.next_ended()) {
    moved = true;
    std::erase(on_devices_, ended->batch.get());
    if (ended->status.ok()) {
      observers_.finished(ended->batch->info());
      count_finished(std::move(ended->batch));
      continue;
    }
    const Status lost = lost_on_device(ended->batch->info(), ended->status);
    retire(*std::move(ended));
    lost.throw_if_error();
  }
  return moved;
}

// The wait for a device may have failed, or been broken off, while the device goes on.
void Executor::retire(CompletionThread::Ended ended) {
  if (ended.status.ok()) return;
  retired_.keep(std::move(ended.batch), std::move(ended.fence));
}

void Executor::finished_here(BatchPtr batch) {
  Fence fence = batch->fence();
  if (!fence.reached()) {
    if (orders_ && fence.in_stream_order()) order_handles(*batch, fence);
    on_devices_.push_back(batch.get());
    completion_.add(std::move(batch), std::move(fence));
    return;
  }
  fence.wait();  // throws if the device failed
  batch->cancel();
  observers_.finished(batch->info());  // a thread that waited finds it counted
  finish_handles(*batch);
  count_finished(std::move(batch));
}

// Until the completion thread has seen `past`, the batch keeps what the device works with.
void Executor::order_handles(Batch& batch, const Fence& past) {
  const std::vector<InFlightPtr>& members = batch.members();
  table_.release_names(members);
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i]->ticket == 0) continue;  // an identity contribution
    members[i]->completion.order(past, batch.take_outcome(i));
  }
  for (const InFlightPtr& member : members) member->completion.wake();
}

// On the coordinator or on the completion thread. First all end, then waiting threads wake.
void Executor::finish_handles(Batch& batch) {
  batch.cancel();
  const std::vector<InFlightPtr>& members = batch.members();
  table_.remove(members);
  for (std::size_t i = 0; i < members.size(); ++i) {
    InFlight& member = *members[i];
    if (member.ticket == 0) continue;  // an identity contribution: no thread waits for it
    Parts parts = std::move(member.submission.parts);
    if (member.completion.is(Completion::Until::kEnqueued)) parts.clear();  // maybe no other wait
    member.completion.end({}, batch.take_outcome(i), std::move(parts));
  }
  for (const InFlightPtr& member : members) member->completion.wake();
}

void Executor::count_finished(BatchPtr batch) {
  --unfinished_;
  Port& port = port_for(batch->key());
  finished_.push_back(batch->take_plan());
  batch.reset();  // before the collective it used
  if (--port.unfinished == 0 && port.removed) {
    ports_.erase({port.set->id, port.collective->device()});
  }
}

// What a batch has enqueued, or given to MPI, may still use its members' memory.
void Executor::let_go(BatchPtr batch) noexcept {
  if (!batch->started()) return;
  try {
    Fence fence = batch->fence();
    if (!fence.reached()) {
      completion_.add_aborted(std::move(batch), std::move(fence));
      return;
    }
    const std::shared_ptr<Batch> given_up(std::move(batch));
    retired_.keep(given_up, [&last = *given_up] { return last.withdraw(); });
  } catch (...) {
    // A device that cannot even record a point runs nothing any more.
  }
}

}  // namespace hvd::engine
