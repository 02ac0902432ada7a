#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "test/support/sim/sim_call.h"
#include "test/support/sim/sim_network.h"

namespace hvd {

// One end of a transfer from one rank to another.
struct SimTransfer {
  SimMemberPtr member;
  Rank peer = 0;
  int tag = 0;
  bool sends = false;
  TensorView tensor;
  bool ready = false;  // what was to be waited for has been reached
  bool met = false;
  Status error;                    // once met
  std::vector<std::byte> arrived;  // once met: what was sent
  TimePoint due;                   // once met
};

using SimTransferPtr = std::shared_ptr<SimTransfer>;

// Where sends and receives meet: of one pair of ranks, group and tag the n-th with the n-th.
// Thread-safe.
class SimTransfers {
 public:
  SimTransfers(Duration max_delay, std::uint64_t seed, SimNetwork& network);

  // Takes its place among those of its pair and tag.
  void post(const SimTransferPtr& transfer);
  // Its memory may be read or written from now on.
  void make_ready(const SimTransferPtr& transfer);
  // True once it has met its other end; what was received is in its tensor then. Throws
  // AbortedError after an abort and MismatchError when the two ends differ.
  bool collect(SimTransfer& transfer);
  // Of one that has not met its other end: as if it had never been. Afterwards nobody touches its
  // memory.
  void withdraw(const SimTransferPtr& transfer);

 private:
  using Key = std::tuple<std::uint64_t, Rank, Rank, int>;  // group, from, to, tag
  struct Line {
    std::deque<SimTransferPtr> sends;
    std::deque<SimTransferPtr> receives;
  };

  static Key key_of(const SimTransfer& transfer);
  void meet(const Key& key) HVD_REQUIRES(mutex_);

  const Duration max_delay_;
  SimNetwork& network_;
  Mutex mutex_;
  std::mt19937_64 random_ HVD_GUARDED_BY(mutex_);
  std::map<Key, Line> lines_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
