#include "horovod_cpp/distributed/collectives/world.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "core/negotiate/messages/request.h"
#include "horovod_cpp/distributed/collectives/broadcast.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/engine_call.h"

namespace hvd {
namespace {

// The only process-wide state of this folder and of session/, where init() keeps what belongs to
// it. Never destroyed: threads and exit handlers may ask for it until the very end.
struct Current {
  Mutex mutex;
  std::shared_ptr<World> world HVD_GUARDED_BY(mutex);
};

Current& current() {
  static auto* instance = new Current;
  return *instance;
}

// Numbers of sets are agreed and never come again: no other call has this name.
std::string agreed_name(ProcessSetId id) {
  return "add_process_set." + std::to_string(id);
}

}  // namespace

ProcessSet World::global_process_set() {
  std::call_once(global_made_, [this] {
    std::vector<Rank> ranks(static_cast<std::size_t>(topology().size));
    std::iota(ranks.begin(), ranks.end(), 0);
    global_.emplace(shared_from_this(), kWorldSet, std::move(ranks));
  });
  return *global_;
}

ProcessSet World::process_set(ProcessSetId id) {
  if (id == kWorldSet) return global_process_set();
  return {shared_from_this(), id, runtime_->sets().find(id)->ranks};
}

std::vector<ProcessSetId> World::process_set_ids() const {
  return runtime_->sets().ids();
}

ProcessSet World::add_process_set(std::vector<Rank> ranks, const std::string& name) {
  const std::string what = "add_process_set" + to_string(Shape(ranks.begin(), ranks.end()));
  if (ranks.empty()) throw InvalidArgumentError(what + ": a process set has at least one rank");
  std::sort(ranks.begin(), ranks.end());
  const auto twice = std::adjacent_find(ranks.begin(), ranks.end());
  if (twice != ranks.end()) {
    throw InvalidArgumentError(what + ": rank " + std::to_string(*twice) + " appears twice");
  }
  if (ranks.front() < 0 || ranks.back() >= topology().size) {
    const Rank wrong = ranks.front() < 0 ? ranks.front() : ranks.back();
    throw InvalidArgumentError(what + ": rank " + std::to_string(wrong) +
                               " is not in this job of " + std::to_string(topology().size));
  }
  const CallSpec spec = make_spec(CollectiveKind::kAddSet, global_process_set(), name);
  const auto call = start_without_tensors(spec, {ranks.begin(), ranks.end()});
  const auto id = static_cast<ProcessSetId>(call->result({}).number);
  const std::string failures = failures_of(id);
  if (failures.empty()) return {shared_from_this(), id, std::move(ranks)};
  start_without_tensors(
      make_spec(CollectiveKind::kRemoveSet, global_process_set(), agreed_name(id)),
      {static_cast<std::int32_t>(id)})
      ->result({});
  throw UnsupportedError(what + ": " + failures);
}

// Collective: what kept ranks from making the set that they have just added, equal on all of them.
std::string World::failures_of(ProcessSetId id) {
  const Status mine = runtime_->sets().find(id)->failure;
  const Tensor failed = Tensor::full({1}, mine.ok() ? 0 : 1, DType::kI64);
  const ProcessSet everyone = global_process_set();
  const std::string name = agreed_name(id);
  // A sum first: ranks that have joined take part in it.
  const Tensor count =
      allreduce(failed, {.op = ReduceOp::kSum, .name = name, .process_set = everyone});
  if (count.item() == 0) return "";
  const std::string text =
      mine.ok() ? "" : "rank " + std::to_string(topology().rank) + ": " + mine.message();
  const auto bytes = std::as_bytes(std::span(text));
  std::string all;
  for (const Bytes& each : allgather_object({bytes.begin(), bytes.end()}, name, everyone)) {
    if (each.empty()) continue;
    all += all.empty() ? "" : "; ";
    all.append(reinterpret_cast<const char*>(each.data()), each.size());
  }
  return all;
}

bool World::remove_process_set(const ProcessSet& set) {
  const ProcessSetId id = set.id();
  const std::vector<ProcessSetId> known = process_set_ids();
  if (id == kWorldSet || std::find(known.begin(), known.end(), id) == known.end()) return false;
  const CallSpec spec = make_spec(CollectiveKind::kRemoveSet, global_process_set(), "");
  start_without_tensors(spec, {static_cast<std::int32_t>(id)})->result({});
  return true;
}

std::uint64_t World::count_unnamed(CollectiveKind kind, ProcessSetId set) {
  const MutexLock lock(mutex_);
  return unnamed_[{kind, set}]++;
}

void World::uncount_unnamed(CollectiveKind kind, ProcessSetId set, std::uint64_t number) {
  const MutexLock lock(mutex_);
  std::uint64_t& count = unnamed_[{kind, set}];
  if (count == number + 1) count = number;
}

std::string World::unique_suffix(const std::string& kind, ProcessSetId set) {
  const MutexLock lock(mutex_);
  return engine::unique_suffix(kind, ++kinds_[{kind, set}]);
}

bool World::is_first_of(const std::string& text) {
  constexpr std::size_t kMost = 1000;
  const MutexLock lock(mutex_);
  return told_.size() < kMost && told_.insert(text).second;
}

void World::restart_unnamed(ProcessSetId set) {
  const MutexLock lock(mutex_);
  std::erase_if(unnamed_, [set](const auto& entry) { return entry.first.second == set; });
  ++joins_[set];
}

std::uint64_t World::joins(ProcessSetId set) {
  const MutexLock lock(mutex_);
  return joins_[set];
}

std::shared_ptr<World> world_if_any() {
  Current& now = current();
  const MutexLock lock(now.mutex);
  return now.world;
}

std::shared_ptr<World> world() {
  if (auto here = world_if_any()) return here;
  throw InvalidArgumentError("horovod_cpp is not initialised: call init() first");
}

std::shared_ptr<World> exchange_world(std::shared_ptr<World> next) {
  Current& now = current();
  const MutexLock lock(now.mutex);
  return std::exchange(now.world, std::move(next));
}

}  // namespace hvd
