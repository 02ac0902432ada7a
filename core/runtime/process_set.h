#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/negotiate/messages/request.h"

namespace hvd::engine {

// Some ranks of the world, numbered 0, 1, ... among themselves in ascending order.
struct SetMembers {
  ProcessSetId id = kWorldSet;
  std::vector<Rank> ranks;  // of the world, ascending
  // Why this rank could not make its collectives: nothing can be submitted to the set here.
  Status failure = {};

  int size() const { return static_cast<int>(ranks.size()); }
  bool has(Rank rank) const;
  // The number that a rank of the world has in this set. Throws InvalidArgumentError if it has
  // none.
  Rank position_of(Rank rank) const;
};

using ProcessSetPtr = std::shared_ptr<const SetMembers>;

// The process sets that the log has added and not removed, the world among them. Thread-safe: the
// coordinator writes, user threads read.
class SetRegistry {
 public:
  explicit SetRegistry(int world_size);

  // Throws InvalidArgumentError on a set that is not, or no longer, there.
  ProcessSetPtr find(ProcessSetId id) const;
  std::vector<ProcessSetId> ids() const;  // ascending
  std::size_t count() const { return count_.load(std::memory_order_relaxed); }

  void add(ProcessSetPtr set);
  void remove(ProcessSetId id);

 private:
  ProcessSetPtr world_;  // constant: it is never removed
  mutable Mutex mutex_;
  std::map<ProcessSetId, ProcessSetPtr> sets_ HVD_GUARDED_BY(mutex_);
  std::atomic<std::size_t> count_{0};  // sets_.size(), which the coordinator asks in every call
};

}  // namespace hvd::engine
