#pragma once

#include <memory>
#include <vector>

#include "core/base/collective_kind.h"
#include "core/base/topology.h"

namespace hvd {

class World;

// Some of the ranks of a job, among which collectives run; every call takes one. A value: copies
// mean the same set. It does not keep the job alive: once its job has ended, calls on it throw
// AbortedError. Any thread.
class ProcessSet {
 public:
  // All ranks of the job of init(), looked up whenever it is used (InvalidArgumentError before
  // init()).
  ProcessSet() = default;
  // Made by World; `ranks` ascending.
  ProcessSet(const std::shared_ptr<World>& world, ProcessSetId id, std::vector<Rank> ranks);

  // 0 = all ranks of the job; others are numbered from 1 in the order in which they were added, and
  // numbers are never reused.
  ProcessSetId id() const;
  // Ranks of the job, ascending.
  std::vector<Rank> ranks() const;
  int size() const;
  // This rank's place in ranks(). Throws InvalidArgumentError when it is not included.
  int rank() const;
  bool included() const;

  // The same set, looked up now: a set of all ranks then belongs to the job of this moment.
  ProcessSet resolved() const;
  // The job it belongs to. Throws AbortedError when that has ended.
  std::shared_ptr<World> world() const;

  // Equal when they are the same set of the same job.
  friend bool operator==(const ProcessSet& a, const ProcessSet& b);

 private:
  struct Members {
    std::weak_ptr<World> world;
    ProcessSetId id = kWorldSet;
    std::vector<Rank> ranks;
  };
  // Those of init()'s job for a default-constructed set.
  std::shared_ptr<const Members> members() const;

  std::shared_ptr<const Members> members_;
};

// All ranks of the job of init().
ProcessSet global_process_set();

// The sets of the job of init() by number, the global one first. process_set throws
// InvalidArgumentError when there is none with this number.
std::vector<ProcessSetId> process_set_ids();
ProcessSet process_set(ProcessSetId id);

// Makes a set of these ranks, in any order; collective over the whole job: all ranks call it, those
// that are not in the set too, and all with the same ranks (MismatchError on every rank). Sets of
// the same ranks, also of all, are sets of their own, whose calls are separate. Throws
// InvalidArgumentError on no ranks, or a rank twice or outside the job.
ProcessSet add_process_set(std::vector<Rank> ranks);

// Removes a set; collective over the whole job, like add_process_set. Calls on it fail from then on
// (InvalidArgumentError). False, without waiting, for the global set and one that does not exist.
bool remove_process_set(const ProcessSet& set);

}  // namespace hvd
