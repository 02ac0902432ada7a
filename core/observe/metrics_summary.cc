// Metrics for people.

#include <algorithm>
#include <locale>
#include <sstream>
#include <string>

#include "core/observe/metrics.h"

namespace hvd {
namespace {

// Of all ranks, on rank 0; elsewhere of the rank itself.
struct JobTotals {
  BatchTotals all;
  Duration exposed = Duration::zero();
  std::size_t ranks = 1;
  std::size_t slowest = 0;
};

JobTotals totals_of(const MetricsSnapshot& snapshot) {
  if (snapshot.ranks.empty()) return {snapshot.totals, snapshot.exposed};
  JobTotals job;
  job.ranks = snapshot.ranks.size();
  for (std::size_t rank = 0; rank < job.ranks; ++rank) {
    const RankMetrics& one = snapshot.ranks[rank];
    job.all += one.totals;
    job.exposed += one.exposed;
    const RankMetrics& slowest = snapshot.ranks[job.slowest];
    if (one.lateness.per_batch() > slowest.lateness.per_batch()) job.slowest = rank;
  }
  return job;
}

std::ostringstream fixed_text(int digits) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out.precision(digits);
  out << std::fixed;
  return out;
}

std::string percent(Duration part, Duration whole) {
  std::ostringstream out = fixed_text(1);
  out << (whole > Duration::zero() ? 100 * to_seconds(part) / to_seconds(whole) : 0.0) << " %";
  return out.str();
}

// "s" where it is not one.
const char* plural(std::uint64_t count) {
  return count == 1 ? "" : "s";
}

std::string who_is_slow(const MetricsSnapshot& snapshot, std::size_t slowest) {
  if (snapshot.size == 1) return "one rank waits for nobody";
  if (snapshot.ranks.empty()) return "known on rank 0";
  const Lateness& lateness = snapshot.ranks[slowest].lateness;
  if (lateness.batches == 0) return "no batch compared yet";
  std::ostringstream out = fixed_text(3);
  out << "rank " << slowest << ": " << 1e3 * to_seconds(lateness.per_batch())
      << " ms late per batch, last in " << lateness.last << " of " << lateness.batches << " batch"
      << (lateness.batches == 1 ? "" : "es");
  return out.str();
}

std::string how_old(const MetricsSnapshot& snapshot) {
  constexpr std::size_t kListed = 8;
  if (snapshot.ranks.empty()) return "this rank alone, now; rank 0 knows all";
  std::ostringstream out = fixed_text(1);
  out << "rank 0 now";
  std::size_t oldest = 0;
  for (std::size_t rank = 1; rank < snapshot.ranks.size(); ++rank) {
    const Duration age = snapshot.ranks[rank].age;
    if (snapshot.ranks.size() <= kListed)
      out << ", rank " << rank << ' ' << to_seconds(age) << " s ago";
    if (age > snapshot.ranks[oldest].age) oldest = rank;
  }
  if (snapshot.ranks.size() > kListed) {
    out << ", the others at most " << to_seconds(snapshot.ranks[oldest].age) << " s ago (rank "
        << oldest << ")";
  }
  return out.str();
}

}  // namespace

std::string summary_line(const MetricsSnapshot& snapshot) {
  const JobTotals job = totals_of(snapshot);
  const BatchTotals& all = job.all;
  std::ostringstream out = fixed_text(3);
  const auto mean = [&](Duration time) { return to_seconds(time) / snapshot.size; };
  out << "horovod_cpp: " << snapshot.size << (snapshot.size == 1 ? " rank, " : " ranks, ")
      << snapshot.totals.batches << " batches on rank 0, " << static_cast<double>(all.bytes) / 1e9
      << " GB in all; mean seconds a rank: negotiate " << mean(all.negotiate) << ", queue "
      << mean(all.queue) << ", pack " << mean(all.pack + all.unpack) << ", collective "
      << mean(all.collective) << ", exposed " << mean(job.exposed) << " of "
      << to_seconds(snapshot.age);
  if (snapshot.ranks.size() < 2) return out.str();
  const Lateness& lateness = snapshot.ranks[job.slowest].lateness;
  out << "; slowest rank " << job.slowest << ": " << to_seconds(lateness.total) << " s late in "
      << lateness.batches << " batches, last in " << lateness.last;
  return out.str();
}

std::string summary_text(const MetricsSnapshot& snapshot) {
  const JobTotals job = totals_of(snapshot);
  const bool whole = !snapshot.ranks.empty();
  const auto mean = [&](Duration time) {
    return to_seconds(time) / static_cast<double>(job.ranks);
  };
  std::ostringstream out = fixed_text(3);
  out << "horovod_cpp: ";
  if (whole) {
    out << snapshot.size << " rank" << plural(static_cast<std::uint64_t>(snapshot.size));
  } else {
    out << "rank " << snapshot.rank << " of " << snapshot.size;
  }
  const double batches = static_cast<double>(std::max<std::uint64_t>(job.all.batches, 1));
  out << ", " << to_seconds(snapshot.age) << " s since init()\n  moved    "
      << static_cast<double>(job.all.bytes) / 1e9 << " GB in " << job.all.batches << " batch"
      << (job.all.batches == 1 ? "" : "es") << " of " << job.all.tensors << " tensor"
      << plural(job.all.tensors) << (whole && job.ranks > 1 ? ", over all ranks" : "") << "; "
      << static_cast<double>(job.all.bytes) / 1e6 / batches << " MB per batch\n  exposed  "
      << mean(job.exposed) << " s per rank, in which the program waited for results: "
      << percent(job.exposed / static_cast<Duration::rep>(job.ranks), snapshot.age)
      << " of the time\n  engine   seconds per rank: negotiate " << mean(job.all.negotiate)
      << ", queue " << mean(job.all.queue) << ", collective " << mean(job.all.collective)
      << " (of it packing " << mean(job.all.pack + job.all.unpack) << ")\n  slowest  "
      << who_is_slow(snapshot, job.slowest) << "\n  as of    " << how_old(snapshot);
  return out.str();
}

}  // namespace hvd
