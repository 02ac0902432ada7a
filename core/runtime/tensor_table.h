#pragma once

#include <atomic>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/negotiate/rank_protocol.h"
#include "core/runtime/completion.h"
#include "core/runtime/handle.h"
#include "core/runtime/submission.h"

namespace hvd::engine {

// A submission between submit() and the end of its handle.
struct InFlight {
  Ticket ticket = 0;
  Submission submission;
  TimePoint announced{};  // when the others were told
  // The table's: who else has the name comes after it, or before.
  bool has_name = false;
  std::shared_ptr<InFlight> next_of_name;
  InFlight* before_of_name = nullptr;
  Completion completion;

  explicit InFlight(std::shared_ptr<LoopOwnership> ownership = nullptr, Submission what = {})
      : submission(std::move(what)), completion(std::move(ownership)) {}
  const std::string& name() const { return submission.request.name; }
};

using InFlightPtr = std::shared_ptr<InFlight>;

// What the owner of a call learns that the others were not told of when the job ended.
Status not_submitted(const std::string& name, const Status& why);

// Submissions in flight: the one structure that threads share. Its mutex is never held while
// anything else is called: no port, no hook, no destructor of user memory.
class TensorTable {
 public:
  // `ownership`: of the coordinator that takes what is added; null = it does not sleep.
  explicit TensorTable(std::shared_ptr<LoopOwnership> ownership = nullptr)
      : ownership_(std::move(ownership)) {}

  // All or none; moves from them. As many handles as submissions. Throws InvalidArgumentError on a
  // name that is in flight under a handle that is still held, or twice in the list, or a process
  // set that this rank has joined, and the status of close() after it. A name in flight without a
  // handle is no error, so that this does not depend on how fast it runs: what is submitted waits
  // here until the name is free.
  void add(std::span<Submission> submissions, std::span<Handle> handles);

  // What was added since the last call, in order of submission; what had to wait for its name, when
  // that became free.
  std::vector<InFlightPtr> take_added();
  // Throws InternalError on a ticket that is not in flight.
  InFlightPtr find(Ticket ticket) const;
  // ... of each; null for those without a ticket.
  std::vector<InFlightPtr> find(std::span<const BatchMember> members) const;
  // From now on the name may be submitted again. False if it had left already.
  bool remove(Ticket ticket);
  // ... of each that is still in flight.
  void remove(std::span<const InFlightPtr> entries);

  // Their names may be submitted again, though they are still in flight.
  void release_names(std::span<const InFlightPtr> entries);

  // Empties the table for good and returns what was in flight, in order of submission. The first
  // reason stays.
  std::vector<InFlightPtr> close(const Status& why);
  // Why the table is closed; ok while it is open.
  Status closed() const;
  bool empty() const { return count() == 0; }
  std::size_t count() const { return count_.load(std::memory_order_acquire); }

 private:
  // Why the entry may not be added; empty when it was.
  std::string take_in(const InFlightPtr& entry) HVD_REQUIRES(mutex_);
  // The reverse of take_in(), of the last entries.
  void put_back(InFlight& entry) HVD_REQUIRES(mutex_);
  // Releases the name and starts the next submission queued under it.
  void forget(InFlight& entry) HVD_REQUIRES(mutex_);
  void release(InFlight& entry) HVD_REQUIRES(mutex_);
  bool waits(const InFlight& entry) const HVD_REQUIRES(mutex_);
  void give(InFlightPtr entry) HVD_REQUIRES(mutex_);
  const InFlightPtr& at(Ticket ticket) const HVD_REQUIRES(mutex_);

  const std::shared_ptr<LoopOwnership> ownership_;
  mutable Mutex mutex_;
  Status closed_ HVD_GUARDED_BY(mutex_);
  Ticket last_ticket_ HVD_GUARDED_BY(mutex_) = 0;
  std::pmr::unsynchronized_pool_resource nodes_ HVD_GUARDED_BY(mutex_);  // of the next two
  std::pmr::unordered_map<Ticket, InFlightPtr> by_ticket_ HVD_GUARDED_BY(mutex_){&nodes_};
  // The last one that has each name; the names are in by_ticket_.
  std::pmr::unordered_map<std::string_view, InFlight*> names_ HVD_GUARDED_BY(mutex_){&nodes_};
  // By process set, those that wait for their names; a join waits for them.
  std::unordered_map<ProcessSetId, std::size_t> waiting_ HVD_GUARDED_BY(mutex_);
  std::vector<InFlightPtr> waiting_joins_ HVD_GUARDED_BY(mutex_);
  // Process sets whose kJoin is in flight.
  std::unordered_set<ProcessSetId> joined_ HVD_GUARDED_BY(mutex_);
  std::vector<InFlightPtr> added_ HVD_GUARDED_BY(mutex_);
  // Written under the mutex; may be read without it.
  std::atomic<std::size_t> count_{0};   // by_ticket_.size()
  std::atomic<bool> any_added_{false};  // !added_.empty()
};

}  // namespace hvd::engine
