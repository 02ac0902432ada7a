#include <algorithm>
#include <cmath>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>

#include "core/observe/metrics.h"

namespace hvd {
namespace {

// Lines of Prometheus' text format.
class Exposition {
 public:
  explicit Exposition(Rank rank) : rank_(rank) {
    text_.imbue(std::locale::classic());
    text_.precision(15);
  }

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
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text.precision(12);
    text << value;
    return text.str();
  }

  const Rank rank_;
  std::string name_;
  std::ostringstream text_;
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
    double (*value)(const BatchTotals&);
  };
  using T = const BatchTotals&;
  static constexpr Family kFamilies[] = {
      {"horovod_batches_total", "Fused batches finished on this rank.",
       [](T t) { return static_cast<double>(t.batches); }},
      {"horovod_tensors_total", "Tensors and groups in them.",
       [](T t) { return static_cast<double>(t.tensors); }},
      {"horovod_bytes_total", "Bytes of this rank's inputs.",
       [](T t) { return static_cast<double>(t.bytes); }},
      {"horovod_packed_bytes_total", "Bytes of them as they travelled.",
       [](T t) { return static_cast<double>(t.packed_bytes); }},
      {"horovod_negotiate_seconds_total", "From the first announcement here until all had.",
       [](T t) { return to_seconds(t.negotiate); }},
      {"horovod_queue_seconds_total", "From then until the collective began.",
       [](T t) { return to_seconds(t.queue); }},
      {"horovod_collective_seconds_total", "From then until the results were there.",
       [](T t) { return to_seconds(t.collective); }},
      {"horovod_pack_seconds_total", "Packing, part of the collective.",
       [](T t) { return to_seconds(t.pack); }},
      {"horovod_unpack_seconds_total", "Unpacking, part of the collective.",
       [](T t) { return to_seconds(t.unpack); }},
  };
  for (const Family& family : kFamilies) {
    out.family(family.name, "counter", family.help);
    for (std::size_t kind = 0; kind < snapshot.by_kind.size(); ++kind) {
      if (snapshot.by_kind[kind].batches == 0) continue;
      out.sample(family.value(snapshot.by_kind[kind]), label_of(kind));
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

}  // namespace hvd
