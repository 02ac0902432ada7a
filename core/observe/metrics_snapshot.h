#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/collective_kind.h"
#include "core/base/topology.h"

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

// Prometheus' text format (version 0.0.4), times in seconds; every line ends with a newline.
std::string to_prometheus_text(const MetricsSnapshot& snapshot);

// One line about the job for people, from rank 0's snapshot; no newline.
std::string summary_line(const MetricsSnapshot& snapshot);
// Some lines: what was moved, how long the program waited, who is slow, and how old all that is. Of
// another rank than 0: about that rank. No newline at the end.
std::string summary_text(const MetricsSnapshot& snapshot);

}  // namespace hvd
