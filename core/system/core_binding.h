#pragma once

#include <set>
#include <span>
#include <vector>

namespace hvd::engine {

// The cores of the `local_rank`-th of `local_size` ranks of one host: an equal part of `cores`,
// neighbours together, what is left over unused. Where there are fewer than ranks, the one that
// this rank shares with its neighbours, or all of them if not all can have as many ranks.
std::vector<int> share_of_cores(const std::vector<int>& cores, int local_rank, int local_size);

// While this lives, the threads of this process that may use all cores, and those they start, run
// on this rank's share of the host's cores: ranks that wander soon meet on one core and wait for
// each other. Threads that the program has bound itself, before or meanwhile, stay where they are.
// Does nothing where something else has bound this process, the rank is alone on its host, ranks do
// not divide evenly among cores, or the system refuses. One at a time.
class CoreBinding {
 public:
  CoreBinding(int local_rank, int local_size);
  // The threads that were moved, and those they started, may use all cores again.
  ~CoreBinding();
  CoreBinding(const CoreBinding&) = delete;
  CoreBinding& operator=(const CoreBinding&) = delete;

 private:
  std::vector<int> before_;  // empty = nothing was bound
  std::vector<int> mine_;
  std::set<int> bound_alike_;  // threads that the program had bound to just these cores before
};

// Ties the calling thread to cores[local_rank]; an empty list means any core. Throws
// InvalidArgumentError naming HOROVOD_THREAD_AFFINITY when the list is too short or this process
// may not use that core.
void pin_this_thread(std::span<const int> cores, int local_rank);

}  // namespace hvd::engine
