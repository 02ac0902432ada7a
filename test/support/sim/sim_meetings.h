#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "test/support/sim/sim_call.h"
#include "test/support/sim/sim_network.h"

namespace hvd {

// Where the ranks' collectives meet: the n-th call of each rank of a group on one lane belongs to
// the n-th of the others. The last one to arrive computes for all, each copies its own results. One
// mutex for everything: this is about being right. Thread-safe.
class SimMeetings {
 public:
  // Exchanges of asynchronous devices have a lane of their own.
  enum class Lane { kData, kHost };

  SimMeetings(int size, Duration max_delay, std::uint64_t seed, SimNetwork& network);

  // The rank's end of the world.
  SimMemberPtr member(Rank rank) { return world_[static_cast<std::size_t>(rank)]; }
  // Its end of a subset of what `parent` is an end of. Throws InternalError when a rank asked for
  // other ranks under this number.
  SimMemberPtr subset(const SimMemberPtr& parent, std::uint32_t number, std::span<const Rank> ranks,
                      Rank rank);

  // Joins the rank's next meeting on the lane and returns its number.
  std::uint64_t arrive(Lane lane, const SimCallPtr& call);
  // Writes the results if they are there. Throws AbortedError after abort() and InternalError when
  // the ranks' calls do not belong together.
  bool collect(Lane lane, std::uint64_t number, const SimCallPtr& call);
  // Like collect, but waits.
  void wait_and_collect(Lane lane, std::uint64_t number, const SimCallPtr& call);
  // Afterwards nobody touches the call's memory.
  void withdraw(const SimCallPtr& call);
  // Ends what the member takes part in, subsets included.
  void abort(SimMember& member);

 private:
  struct Meeting {
    SimCalls calls;
    int arrived = 0;
    int collected = 0;
    bool computed = false;
    std::string error;
    SimResults results;
    std::vector<TimePoint> due;  // by rank
  };
  struct Group {
    std::uint64_t id = 0;
    std::vector<Rank> ranks;  // of its parent
    std::size_t joined = 0;
  };
  using Key = std::tuple<std::uint64_t, Lane, std::uint64_t>;  // group, lane, number

  void compute(Meeting& meeting) HVD_REQUIRES(mutex_);
  bool collect_locked(const Key& key, SimCall& call) HVD_REQUIRES(mutex_);

  const Duration max_delay_;
  SimNetwork& network_;
  std::vector<SimMemberPtr> world_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::mt19937_64 random_ HVD_GUARDED_BY(mutex_);
  std::map<Key, Meeting> meetings_ HVD_GUARDED_BY(mutex_);
  std::map<std::tuple<std::uint64_t, Lane, Rank>, std::uint64_t> next_ HVD_GUARDED_BY(mutex_);
  // By parent and number; dropped when all of its ranks have joined.
  std::map<std::pair<std::uint64_t, std::uint32_t>, Group> groups_ HVD_GUARDED_BY(mutex_);
  std::uint64_t last_group_ HVD_GUARDED_BY(mutex_) = 0;
};

}  // namespace hvd
