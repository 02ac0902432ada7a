#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/observe/metrics_snapshot.h"
#include "core/observe/observer.h"

namespace hvd::engine {

// Finds the ranks that the others wait for. A rank that waited least for a batch came last: its
// lateness is the longest wait of any rank less its own. Waits are durations, so clocks need not
// agree. Pure.
class Stragglers {
 public:
  explicit Stragglers(int size) : totals_(static_cast<std::size_t>(size)) {}

  // From its last announcement for the batch on, the rank waited this long. Batches in any order,
  // once per rank; those of all ranks are counted when complete, others when kPending later ones
  // are known.
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

// Counts what one Runtime does and, on rank 0, what the others say they did. Cheap enough to be
// always on: no allocation in steady state.
class Metrics final : public Observer {
 public:
  Metrics(Rank rank, int size);

  MetricsSnapshot snapshot() const;  // any thread

  void finished(const BatchInfo& batch) override;
  void failed(std::uint64_t ticket, std::string_view name, const Status& why,
              TimePoint at) override;
  void collect(Bytes& out) override;
  void receive(const Observation& observation) override;

 private:
  struct Wait {
    std::uint64_t batch = 0;
    Duration wait = Duration::zero();
  };
  void note_wait(const BatchInfo& batch, Duration wait) HVD_REQUIRES(mutex_);
  Duration exposed() const;

  const TimePoint begin_ = Clock::now();
  const Duration blocked_before_;
  // Large jobs compare every n-th batch, all ranks the same ones.
  const std::uint64_t sample_every_;

  mutable Mutex mutex_;
  MetricsSnapshot now_ HVD_GUARDED_BY(mutex_);
  std::vector<Wait> waits_ HVD_GUARDED_BY(mutex_);             // not reported yet; not on rank 0
  std::vector<TimePoint> reported_at_ HVD_GUARDED_BY(mutex_);  // rank 0's: when each rank did
  Stragglers stragglers_ HVD_GUARDED_BY(mutex_);               // rank 0's
};

}  // namespace hvd::engine
