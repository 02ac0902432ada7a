#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "ops/host/host_collective.h"
#include "ops/host/transfers.h"
#include "test/support/sim/sim_device.h"
#include "test/support/sim/sim_network.h"
#include "test/support/sim/sim_world.h"

namespace hvd::engine {

using SimParts = std::vector<Bytes>;

// What one rank brings to one collective, whatever that is: all ranks get the parts of all.
struct SimCall {
  std::string signature;  // equal on all ranks whose calls belong together
  std::function<SimParts()> pack = {};
  std::function<void(std::span<const SimParts> by_rank)> finish = {};
  bool withdrawn = false;  // its memory may be gone
};

using SimCallPtr = std::shared_ptr<SimCall>;

// Where the ranks' collectives meet: the n-th call of each rank of a set on one lane belongs to the
// n-th of the others. One mutex for everything: this is about being right. Thread-safe.
class SimMeetings {
 public:
  // What devices enqueue, and what is polled.
  enum class Lane { kDevice, kHost };

  SimMeetings(Duration max_delay, std::uint64_t seed, SimNetwork& network)
      : max_delay_(max_delay), network_(network), random_(seed) {}

  // Throws InternalError when another rank made the set of this key of other ranks.
  void add_set(std::uint64_t key, const std::vector<Rank>& world_ranks);
  // Joins the rank's next meeting on the lane and returns its number.
  std::uint64_t arrive(Lane lane, const host::RankSet& set, const SimCallPtr& call);
  // Finishes the call if all are there. Throws AbortedError after an abort and InternalError when
  // the ranks' calls do not belong together.
  bool collect(Lane lane, std::uint64_t number, const host::RankSet& set, SimCall& call);
  // Like collect, but waits.
  void wait_and_collect(Lane lane, std::uint64_t number, const host::RankSet& set, SimCall& call);
  // Afterwards nobody touches the call's memory.
  void withdraw(SimCall& call);
  // After a set was aborted.
  void wake();

 private:
  struct Meeting {
    std::vector<SimCallPtr> calls;  // by rank
    std::vector<SimParts> parts;
    std::size_t arrived = 0;
    std::size_t collected = 0;
    std::string error;
    std::vector<TimePoint> due;  // by rank, once all are there
  };
  using Key = std::tuple<std::uint64_t, Lane, std::uint64_t>;  // set, lane, number

  void complete(Meeting& meeting) HVD_REQUIRES(mutex_);
  bool collect_locked(const Key& key, const host::RankSet& set, SimCall& call) HVD_REQUIRES(mutex_);

  const Duration max_delay_;
  SimNetwork& network_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::mt19937_64 random_ HVD_GUARDED_BY(mutex_);
  std::map<Key, Meeting> meetings_ HVD_GUARDED_BY(mutex_);
  std::map<std::tuple<std::uint64_t, Lane, Rank>, std::uint64_t> next_ HVD_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::vector<Rank>> sets_ HVD_GUARDED_BY(mutex_);
};

// Where sends and receives of all ranks meet: of one pair of ranks, set and tag the n-th with the
// n-th. What host::Transfers is to one rank of a real backend. Thread-safe.
class SimTransfers {
 public:
  using TransferPtr = std::shared_ptr<host::Transfer>;

  SimTransfers(Duration max_delay, std::uint64_t seed, SimNetwork& network)
      : max_delay_(max_delay), network_(network), random_(seed) {}

  TransferPtr add(host::Transfer transfer);
  void poll() {}
  bool done(host::Transfer& transfer);
  // Of one that has not met its other end: as if it had never been.
  bool withdraw(const TransferPtr& transfer, bool for_good) noexcept;

 private:
  struct Timed : host::Transfer {
    TimePoint due;  // once settled
  };
  using Key = std::tuple<std::uint64_t, Rank, Rank, int>;  // set, from, to, tag
  struct Line {
    std::deque<TransferPtr> sends;
    std::deque<TransferPtr> receives;
  };

  static Key key_of(const host::Transfer& transfer) {
    return {transfer.key.set, transfer.from, transfer.to, transfer.key.tag};
  }
  void meet(const Key& key) HVD_REQUIRES(mutex_);

  const Duration max_delay_;
  SimNetwork& network_;
  Mutex mutex_;
  std::mt19937_64 random_ HVD_GUARDED_BY(mutex_);
  std::map<Key, Line> lines_ HVD_GUARDED_BY(mutex_);
};

// What the ports of one SimWorld share.
struct SimState {
  SimState(int world_size, const SimOptions& sim_options);

  const int size;
  const SimOptions options;
  SimNetwork network;
  SimMeetings meetings;
  SimTransfers transfers;
};

// One rank's end of a SimWorld or of a subset of it.
class SimSet : public host::RankSet {
 public:
  static constexpr bool kOwnAdasum = true;

  SimSet(std::shared_ptr<SimState> state, Rank rank)
      : RankSet(rank, state->size), state_(std::move(state)) {}
  SimSet(const std::shared_ptr<const SimSet>& parent, std::uint32_t number,
         std::vector<Rank> world_ranks)
      : RankSet(parent, number, parent->world_rank(parent->rank()), std::move(world_ranks)),
        state_(parent->state_) {
    state_->meetings.add_set(key(), RankSet::world_ranks());
  }

  SimState& shared() const noexcept { return *state_; }
  // As RankSet's, and whoever waits for it looks.
  void abort() noexcept {
    RankSet::abort();
    state_->meetings.wake();
    state_->network.doorbell(world_rank(rank())).ring();
  }

  SimDevice* device = nullptr;  // asynchronous only: that of its Collective

 private:
  std::shared_ptr<SimState> state_;
};

}  // namespace hvd::engine
