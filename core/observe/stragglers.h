#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/base/clock.h"
#include "core/base/topology.h"

namespace hvd {

// How late one rank was, over all batches it took part in.
struct Lateness {
  std::uint64_t batches = 0;
  std::uint64_t last = 0;             // batches for which it came last
  Duration total = Duration::zero();  // after the first rank
  Duration longest = Duration::zero();

  // Comparable between ranks that took part in different numbers of batches.
  Duration per_batch() const {
    return batches == 0 ? Duration::zero() : total / static_cast<Duration::rep>(batches);
  }
};

// Finds the ranks that the others wait for. A rank that waited least for a batch came last: its
// lateness is the longest wait of any rank less its own. Waits are durations, so clocks need not
// agree. Pure.
class Stragglers {
 public:
  explicit Stragglers(int size) : totals_(static_cast<std::size_t>(size)) {}

  // From its last announcement for the batch on, the rank waited this long. Batches in any order,
  // once a rank; those of all ranks are counted when complete, others when kPending later ones are
  // known.
  void add(Rank rank, std::uint64_t batch, Duration wait);
  // By rank; what is known of incomplete batches included.
  std::vector<Lateness> totals() const;

  static constexpr std::size_t kPending = 1024;

 private:
  struct Wait {
    Rank rank = 0;
    Duration wait = Duration::zero();
  };
  static void count(const std::vector<Wait>& waits, std::vector<Lateness>& totals);

  std::vector<Lateness> totals_;
  std::map<std::uint64_t, std::vector<Wait>> pending_;  // by batch
  std::vector<std::vector<Wait>> spare_;                // storage to use again
};

}  // namespace hvd
