#include "core/runtime/process_set.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/base/status.h"

namespace hvd::engine {

bool SetMembers::has(Rank rank) const {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

Rank SetMembers::position_of(Rank rank) const {
  const auto it = std::lower_bound(ranks.begin(), ranks.end(), rank);
  if (it == ranks.end() || *it != rank) {
    throw InvalidArgumentError("rank " + std::to_string(rank) + " is not in process set " +
                               std::to_string(id));
  }
  return static_cast<Rank>(it - ranks.begin());
}

SetRegistry::SetRegistry(int world_size) {
  SetMembers world{kWorldSet, std::vector<Rank>(static_cast<std::size_t>(world_size))};
  std::iota(world.ranks.begin(), world.ranks.end(), 0);
  world_ = std::make_shared<const SetMembers>(std::move(world));
  add(world_);
}

ProcessSetPtr SetRegistry::find(ProcessSetId id) const {
  if (id == kWorldSet) return world_;
  const MutexLock lock(mutex_);
  const auto it = sets_.find(id);
  if (it != sets_.end()) return it->second;
  throw InvalidArgumentError("there is no process set " + std::to_string(id) +
                             ": it was never added here, or removed");
}

std::vector<ProcessSetId> SetRegistry::ids() const {
  std::vector<ProcessSetId> ids;
  const MutexLock lock(mutex_);
  for (const auto& [id, set] : sets_) ids.push_back(id);
  return ids;
}

void SetRegistry::add(ProcessSetPtr set) {
  const MutexLock lock(mutex_);
  const ProcessSetId id = set->id;
  sets_.insert_or_assign(id, std::move(set));
  count_ = sets_.size();
}

void SetRegistry::remove(ProcessSetId id) {
  const MutexLock lock(mutex_);
  sets_.erase(id);
  count_ = sets_.size();
}

}  // namespace hvd::engine
