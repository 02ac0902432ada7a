#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/runtime/collective.h"
#include "ops/sim/sim_network.h"

namespace hvd {

enum class SimKind { kReduce, kBroadcast, kGather, kExchange };

// What one rank brings to one collective.
struct SimCall {
  SimKind kind = SimKind::kReduce;
  Rank rank = 0;
  ReduceOp op = ReduceOp::kSum;
  double scale = 1.0;
  Rank root = 0;
  std::vector<Slice> slices = {};
  std::vector<GatherSlice> gathers = {};
  std::span<const std::int64_t> mine = {};
  std::span<std::int64_t> all = {};
  bool withdrawn = false;  // its memory may be gone
};

using SimCallPtr = std::shared_ptr<SimCall>;

// Where the ranks' collectives meet: the n-th call of each rank on one lane belongs to the n-th of
// the others. The last one to arrive computes for all, each copies its own results. One mutex for
// everything: this is about being right. Thread-safe.
class SimMeetings {
 public:
  // Exchanges of asynchronous devices have a lane of their own.
  enum class Lane { kData, kHost };

  SimMeetings(int size, Duration max_delay, std::uint64_t seed, SimNetwork& network);

  // Joins the rank's next meeting on the lane and returns its number.
  std::uint64_t arrive(Lane lane, const SimCallPtr& call);
  // Writes the results if they are there. Throws AbortedError after abort(rank) and InternalError
  // when the ranks' calls do not belong together.
  bool collect(Lane lane, std::uint64_t number, const SimCallPtr& call);
  // Like collect, but waits.
  void wait_and_collect(Lane lane, std::uint64_t number, const SimCallPtr& call);
  // Afterwards nobody touches the call's memory.
  void withdraw(const SimCallPtr& call);
  void abort(Rank rank);
  bool aborted(Rank rank);
  // Throws AbortedError after abort(rank).
  void check_running(Rank rank);

 private:
  struct Meeting {
    std::vector<SimCallPtr> calls;  // by rank
    int arrived = 0;
    int collected = 0;
    bool computed = false;
    std::string error;
    std::vector<std::vector<std::byte>> results;  // one a slice
    std::vector<TimePoint> due;                   // by rank
  };
  using Key = std::pair<Lane, std::uint64_t>;

  void compute(Meeting& meeting) HVD_REQUIRES(mutex_);
  void check_aborted(Rank rank) HVD_REQUIRES(mutex_);
  bool collect_locked(const Key& key, SimCall& call) HVD_REQUIRES(mutex_);

  const std::size_t size_;
  const Duration max_delay_;
  SimNetwork& network_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::mt19937_64 random_ HVD_GUARDED_BY(mutex_);
  std::map<Key, Meeting> meetings_ HVD_GUARDED_BY(mutex_);
  std::map<std::pair<Lane, Rank>, std::uint64_t> next_ HVD_GUARDED_BY(mutex_);
  std::vector<char> aborted_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
