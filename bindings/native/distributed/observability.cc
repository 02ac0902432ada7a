#include "bindings/native/distributed/distributed.h"
#include "bindings/native/numbers.h"
#include "horovod_cpp/distributed/session/session.h"

namespace hvd::python {
namespace {

using Json = Typed<"dict[str, typing.Any]">;

py::dict as_dict(const BatchTotals& totals) {
  py::dict dict;
  dict["batches"] = totals.batches;
  dict["tensors"] = totals.tensors;
  dict["bytes"] = totals.bytes;
  dict["packed_bytes"] = totals.packed_bytes;
  dict["negotiate_seconds"] = to_seconds(totals.negotiate);
  dict["queue_seconds"] = to_seconds(totals.queue);
  dict["collective_seconds"] = to_seconds(totals.collective);
  dict["pack_seconds"] = to_seconds(totals.pack);
  dict["unpack_seconds"] = to_seconds(totals.unpack);
  return dict;
}

py::dict as_dict(const Histogram& histogram) {
  py::list bounds, counts;
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i) {
    bounds.append(histogram.bound(i));
    counts.append(histogram.counts[i]);
  }
  py::dict dict;
  dict["bounds"] = bounds;
  dict["counts"] = counts;
  dict["sum"] = histogram.sum;
  return dict;
}

py::dict as_dict(const RankMetrics& rank) {
  py::dict dict = as_dict(rank.totals);
  dict["exposed_seconds"] = to_seconds(rank.exposed);
  dict["late_batches"] = rank.lateness.batches;
  dict["last_batches"] = rank.lateness.last;
  dict["late_seconds"] = to_seconds(rank.lateness.total);
  dict["latest_seconds"] = to_seconds(rank.lateness.longest);
  dict["late_seconds_per_batch"] = to_seconds(rank.lateness.per_batch());
  dict["age_seconds"] = to_seconds(rank.age);
  return dict;
}

Json metrics_dict() {
  const MetricsSnapshot snapshot = without_gil([] { return metrics(); });
  py::dict dict = as_dict(snapshot.totals);
  dict["rank"] = snapshot.rank;
  dict["size"] = snapshot.size;
  dict["age_seconds"] = to_seconds(snapshot.age);
  dict["failed"] = snapshot.failed;
  dict["exposed_seconds"] = to_seconds(snapshot.exposed);
  py::dict kinds, histograms;
  for (std::size_t kind = 0; kind < snapshot.by_kind.size(); ++kind) {
    if (snapshot.by_kind[kind].batches == 0) continue;
    kinds[name_of(static_cast<CollectiveKind>(kind))] = as_dict(snapshot.by_kind[kind]);
  }
  dict["by_kind"] = kinds;
  histograms["negotiate_seconds"] = as_dict(snapshot.negotiate_seconds);
  histograms["queue_seconds"] = as_dict(snapshot.queue_seconds);
  histograms["collective_seconds"] = as_dict(snapshot.collective_seconds);
  histograms["batch_bytes"] = as_dict(snapshot.batch_bytes);
  dict["histograms"] = histograms;
  py::list ranks;
  for (const RankMetrics& rank : snapshot.ranks) ranks.append(as_dict(rank));
  dict["ranks"] = ranks;
  return dict;
}

Typed<"list[dict[str, str]]"> config_list() {
  py::list list;
  for (const SettingInfo& setting : config()) {
    py::dict row;
    row["name"] = setting.name;
    row["value"] = setting.value;
    row["default"] = setting.default_value;
    row["source"] = setting.source;
    row["meaning"] = setting.meaning;
    row["ranks"] = name_of(setting.agreement);
    list.append(row);
  }
  return list;
}

// A Python function that threads of the engine call, and may drop.
template <typename Result, typename... Args>
std::function<Result(Args...)> callback_from(const py::object& function) {
  if (function.is_none()) return nullptr;
  if (PyCallable_Check(function.ptr()) == 0) {
    throw py::type_error("expected a function or None, not " +
                         py::repr(function).cast<std::string>());
  }
  return [shared = SharedObject(function)](Args... args) -> Result {
    if (Py_IsInitialized() == 0) return Result();
    const py::gil_scoped_acquire gil;
    try {
      const py::object result = shared.get()(args...);
      if constexpr (!std::is_void_v<Result>) return result.cast<Result>();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("a callback of horovod_cpp");
    }
    return Result();
  };
}

void bind_metrics(py::module_& m) {
  m.def("metrics", &metrics_dict,
        R"(Counters and histograms of this rank, as a dict.

``rank``, ``size``, ``age_seconds`` (since init()), ``batches``, ``tensors`` (a group counts once),
``bytes`` (of this rank's inputs), ``packed_bytes`` (as they travelled), ``failed`` (calls),
``negotiate_seconds`` (until all ranks had announced), ``queue_seconds`` (until the collective
began), ``collective_seconds``, of which ``pack_seconds`` and ``unpack_seconds``, and
``exposed_seconds`` (this program waited). ``by_kind``: the same by kind of collective.
``histograms``: name -> ``bounds``, ``counts``, ``sum``. ``ranks``, on rank 0: the same of every
rank, and ``late_batches``, ``last_batches`` (for which it came last), ``late_seconds``,
``latest_seconds``: how late it announced compared with the first rank, ``late_seconds_per_batch``
(the mean, to compare ranks by) and ``age_seconds``: since the rank reported all this.)");
  m.def(
      "summary", &summary, ReleaseGil(),
      R"(Six lines of text about the job: bytes and batches, exposed time (in which the program waited
for results), what the engine did, the slowest rank, and how old each rank's numbers are.

Rank 0 knows all ranks; another one reports on itself. ``metrics()`` has the numbers.

Raises:
    InvalidArgumentError: before init().)");
  m.def("metrics_text", &metrics_text, ReleaseGil(),
        "The metrics in Prometheus' text format, for an endpoint or a file.");
}

}  // namespace

void bind_observability(py::module_& m) {
  define(m, "start_timeline", given<"mark_cycles">(&start_timeline),
         R"(Record what all ranks do into one Chrome trace; ui.perfetto.dev opens it.

Rank 0 writes the file, by its own clock. It can be read at any moment (hvd.plot.load_timeline), also
after the job was killed. Every rank may call this and stop_timeline(); rank 0's calls count.)",
         Arg("file_path", "An existing file is replaced."),
         Arg("mark_cycles",
             "Mark each decision of rank 0; None: as HOROVOD_TIMELINE_MARK_CYCLES says.") =
             std::nullopt,
         ReleaseGil(),
         Invalid{"before init(), a recording is in progress, or the file cannot be written."});
  m.def("stop_timeline", &stop_timeline, ReleaseGil(),
        "Complete the file of start_timeline(). Does nothing when nothing is recorded.");
  bind_metrics(m);
  m.def("dump_flight_recorder", &dump_flight_recorder, py::arg("file_path"), ReleaseGil(),
        R"(Write this rank's last operations (HVD_FLIGHT_RECORDER_SIZE of them) as JSON.

A job whose engine ends with an error does so by itself (HVD_FLIGHT_RECORDER_DIR).

Args:
    file_path: what is there is replaced.

Raises:
    InvalidArgumentError: before init(), or the file cannot be written.)");
  m.def("config", &config_list,
        R"(Every setting: a list of dicts with name, value, default, source, meaning and ranks.

``ranks`` says whose value counts: "the same on all ranks" (init() fails where values differ), "that of
rank 0" or "each rank has its own". Where rank 0's value replaced this rank's, the source is "rank 0".

Raises:
    InvalidArgumentError: a variable is malformed.)");
  m.def(
      "on_stall",
      [](const Typed<"collections.abc.Callable[[str], typing.Any] | None">& report) {
        auto callback = callback_from<void, const std::string&>(report);
        without_gil([&] { on_stall(std::move(callback)); });
      },
      py::arg("callback"),
      R"(Have every stall warning passed to ``callback(text)`` as well as logged.

It runs on a thread of its own. None = no longer. Holds for later jobs of this process too.)");
  m.def(
      "_set_location_callback",
      [](const Typed<"collections.abc.Callable[[], str] | None">& where) {
        auto callback = callback_from<std::string>(where);
        without_gil([&] { set_location_callback(std::move(callback)); });
      },
      py::arg("callback"));
}

}  // namespace hvd::python
