// Metrics as text: for Prometheus, and for people.

#include <algorithm>
#include <cmath>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>

#include "core/observe/metrics.h"

namespace hvd {
namespace {

std::ostringstream text_of(int digits) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out.precision(digits);
  return out;
}

// Lines of Prometheus' text format.
class Exposition {
 public:
  explicit Exposition(Rank rank) : rank_(rank) {}

  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
  }
  void sample(const auto& value, std::string_view labels = "", std::string_view suffix = "") {
    sample_of(rank_, value, labels, suffix);
  }
  void sample_of(Rank rank, const auto& value, std::string_view labels = "",
                 std::string_view suffix = "") {
    text_ << name_ << suffix << "{rank=\"" << rank << '"' << (labels.empty() ? "" : ",") << labels
          << "} " << value << '\n';
  }
  void histogram(std::string_view name, const Histogram& histogram, std::string_view help) {
    family(name, "histogram", help);
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < Histogram::kBuckets; ++i) {
      below += histogram.counts[i];
      sample(below, "le=\"" + bound(histogram.bound(i)) + '"', "_bucket");
    }
    sample(histogram.sum, "", "_sum");
    sample(below, "", "_count");
  }
  std::string text() const { return text_.str(); }

 private:
  static std::string bound(double value) {
    if (std::isinf(value)) return "+Inf";
    std::ostringstream text = text_of(12);
    text << value;
    return text.str();
  }

  const Rank rank_;
  std::string name_;
  std::ostringstream text_ = text_of(15);
};

std::string label_of(std::size_t kind) {
  std::string name = name_of(static_cast<CollectiveKind>(kind));
  std::replace(name.begin(), name.end(), ' ', '_');
  return "kind=\"" + name + '"';
}

void put_totals(const MetricsSnapshot& snapshot, Exposition& out) {
  struct Family {
    const char* name;
    const char* help;
    std::uint64_t BatchTotals::*count;
    Duration BatchTotals::*time = nullptr;  // in place of a count
  };
  static constexpr Family kFamilies[] = {
      {"batches", "Fused batches finished on this rank.", &BatchTotals::batches},
      {"tensors", "Tensors and groups in them.", &BatchTotals::tensors},
      {"bytes", "Bytes of this rank's inputs.", &BatchTotals::bytes},
      {"packed_bytes", "Bytes of them as they travelled.", &BatchTotals::packed_bytes},
      {"negotiate_seconds", "From the first announcement here until all had.", nullptr,
       &BatchTotals::negotiate},
      {"queue_seconds", "From then until the collective began.", nullptr, &BatchTotals::queue},
      {"collective_seconds", "From then until the results were there.", nullptr,
       &BatchTotals::collective},
      {"pack_seconds", "Packing, part of the collective.", nullptr, &BatchTotals::pack},
      {"unpack_seconds", "Unpacking, part of the collective.", nullptr, &BatchTotals::unpack},
  };
  for (const Family& family : kFamilies) {
    out.family("horovod_" + std::string(family.name) + "_total", "counter", family.help);
    for (std::size_t kind = 0; kind < snapshot.by_kind.size(); ++kind) {
      const BatchTotals& totals = snapshot.by_kind[kind];
      if (totals.batches == 0) continue;
      out.sample(family.time == nullptr ? static_cast<double>(totals.*family.count)
                                        : to_seconds(totals.*family.time),
                 label_of(kind));
    }
  }
}

void put_lateness(const MetricsSnapshot& snapshot, Exposition& out) {
  if (snapshot.ranks.empty()) return;
  out.family("horovod_rank_late_seconds_total", "counter",
             "How much later than the first rank each rank announced its batches.");
  for (std::size_t rank = 0; rank < snapshot.ranks.size(); ++rank) {
    out.sample_of(static_cast<Rank>(rank), to_seconds(snapshot.ranks[rank].lateness.total));
  }
  out.family("horovod_rank_last_total", "counter", "Batches for which each rank came last.");
  for (std::size_t rank = 0; rank < snapshot.ranks.size(); ++rank) {
    out.sample_of(static_cast<Rank>(rank), snapshot.ranks[rank].lateness.last);
  }
}

}  // namespace

std::string to_prometheus_text(const MetricsSnapshot& snapshot) {
  Exposition out(snapshot.rank);
  put_totals(snapshot, out);
  out.family("horovod_failed_total", "counter", "Submissions that failed.");
  out.sample(snapshot.failed);
  out.family("horovod_exposed_seconds_total", "counter",
             "Time threads were blocked waiting for results.");
  out.sample(to_seconds(snapshot.exposed));
  out.family("horovod_size", "gauge", "Ranks of the job.");
  out.sample(snapshot.size);
  out.histogram("horovod_negotiate_seconds", snapshot.negotiate_seconds,
                "A tensor, from its announcement here until all ranks had it.");
  out.histogram("horovod_queue_seconds", snapshot.queue_seconds,
                "A batch, from its negotiation until its collective began.");
  out.histogram("horovod_collective_seconds", snapshot.collective_seconds,
                "A batch, from then until its results were there.");
  out.histogram("horovod_batch_bytes", snapshot.batch_bytes, "A batch, this rank's inputs.");
  put_lateness(snapshot, out);
  return out.text();
}

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
  std::ostringstream out = text_of(digits);
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
  if (snapshot.size == 1) return "one rank waits for no other";
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
      << " GB in all; mean seconds per rank: negotiate " << mean(all.negotiate) << ", queue "
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
