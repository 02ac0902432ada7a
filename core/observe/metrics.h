#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/negotiate/messages/request.h"
#include "core/observe/observer.h"

namespace hvd {

// What one rank did, summed over batches.
struct BatchTotals {
  std::uint64_t batches = 0;
  std::uint64_t tensors = 0;               // names; a group counts once
  std::uint64_t bytes = 0;                 // of this rank's inputs
  std::uint64_t packed_bytes = 0;          // of them as they travelled
  Duration negotiate = Duration::zero();   // from the first announcement here until all had
  Duration queue = Duration::zero();       // from then until the collective began
  Duration collective = Duration::zero();  // from then until the results were there
  Duration pack = Duration::zero();        // of that
  Duration unpack = Duration::zero();      // of that

  BatchTotals& operator+=(const BatchTotals& other);
};

// Counts values in buckets whose bounds grow by the factor 4: bucket i holds what is <= bound(i)
// and larger than the bucket before; the last one holds the rest.
struct Histogram {
  static constexpr std::size_t kBuckets = 16;

  explicit Histogram(double first_bound) : first(first_bound) {}
  double bound(std::size_t bucket) const;  // infinite for the last
  void add(double value);

  double first;
  std::array<std::uint64_t, kBuckets> counts{};
  double sum = 0;
};

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

// One rank as rank 0 knows it.
struct RankMetrics {
  BatchTotals totals;
  Duration exposed = Duration::zero();
  Lateness lateness;
  Duration age = Duration::zero();  // since the rank reported
};

struct MetricsSnapshot {
  Rank rank = 0;
  int size = 1;
  Duration age = Duration::zero();  // since the job began
  std::array<BatchTotals, kCollectiveKindCount> by_kind{};
  BatchTotals totals;
  std::uint64_t failed = 0;             // submissions that failed
  Duration exposed = Duration::zero();  // see blocked_time()
  Histogram negotiate_seconds{1e-6};    // a name, from its announcement here until all had it
  Histogram queue_seconds{1e-6};        // a batch
  Histogram collective_seconds{1e-6};   // a batch
  Histogram batch_bytes{64};
  // By rank, as of each rank's last report, whose age is given; empty but on rank 0.
  std::vector<RankMetrics> ranks;
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
  // Large jobs compare every so many batches, all ranks the same ones.
  const std::uint64_t sample_every_;

  mutable Mutex mutex_;
  MetricsSnapshot now_ HVD_GUARDED_BY(mutex_);
  std::vector<Wait> waits_ HVD_GUARDED_BY(mutex_);             // not reported yet; not on rank 0
  std::vector<TimePoint> reported_at_ HVD_GUARDED_BY(mutex_);  // rank 0's: when each rank did
  Stragglers stragglers_ HVD_GUARDED_BY(mutex_);               // rank 0's
};

// Prometheus' text format (version 0.0.4), times in seconds; every line ends with a newline.
std::string to_prometheus_text(const MetricsSnapshot& snapshot);

// One line about the job for people, from rank 0's snapshot; no newline.
std::string summary_line(const MetricsSnapshot& snapshot);
// Some lines: what was moved, how long the program waited, who is slow, and how old all that is. Of
// another rank than 0: about that rank. No newline at the end.
std::string summary_text(const MetricsSnapshot& snapshot);

}  // namespace hvd
