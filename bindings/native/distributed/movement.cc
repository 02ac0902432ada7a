// Collectives that only move data: allgather, gather, broadcast, scatter, alltoall, barrier, join,
// and transfers between two ranks.

#include "bindings/native/distributed/distributed.h"
#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/collectives.h"

namespace hvd::python {
namespace {

using MaybeSplits = std::optional<Integers>;

CollectiveOptions collective_options(const MaybeName& name, const PythonProcessSet& set) {
  return {name.value_or(""), set.registered()};
}

SplitOptions split_options(const MaybeSplits& splits, const MaybeName& name,
                           const PythonProcessSet& set) {
  return {list_of(splits.value_or(Integers())), name.value_or(""), set.registered()};
}

PointToPointOptions transfer_options(Given<int> tag, const PythonProcessSet& set) {
  return {.tag = tag, .process_set = set.registered()};
}

PendingResult::Convert with_splits(const Input& input) {
  return [like = one_like(input)](const CallResult& result) -> py::object {
    return py::make_tuple(like(result), py::cast(result.rows_of));
  };
}

PendingResult alltoall_async(const ArrayT& tensor, const MaybeSplits& splits, const MaybeName& name,
                             const PythonProcessSet& set) {
  const Input input(tensor);
  const auto options = split_options(splits, name, set);
  return {without_gil([&] { return hvd::alltoall_async(input.tensor, options); }),
          with_splits(input)};
}

ArrayT alltoall(const ArrayT& tensor, const py::none& /*splits*/, const MaybeName& name,
                const PythonProcessSet& set) {
  return alltoall_async(tensor, {}, name, set).synchronize()[py::int_(0)];
}

Typed<"tuple[ArrayT, list[int]]"> alltoall_of(const ArrayT& tensor, const Integers& splits,
                                              const MaybeName& name, const PythonProcessSet& set) {
  return alltoall_async(tensor, splits, name, set).synchronize();
}

PendingResult barrier_async(const MaybeName& name, const PythonProcessSet& set) {
  const BarrierOptions options{.name = name.value_or(""), .process_set = set.registered()};
  return {without_gil([&] { return hvd::barrier_async(options); }), itself(py::none())};
}

PendingResult join_async(const std::string& average, const PythonProcessSet& set) {
  if (average != "contributed" && average != "size") {
    throw InvalidArgumentError("join: average is '" + average +
                               "'; expected 'contributed' or 'size'");
  }
  const JoinOptions options{
      .average = average == "size" ? JoinAverage::kSize : JoinAverage::kContributed,
      .process_set = set.registered()};
  return {without_gil([&] { return hvd::join_async(options); }),
          [](const CallResult& result) { return py::object(py::int_(result.number)); }};
}

PendingResult isend(const ArrayT& tensor, Given<int> dst, Given<int> tag,
                    const PythonProcessSet& set) {
  const Input input(tensor);
  const PointToPointOptions options = transfer_options(tag, set);
  return {without_gil([&] { return hvd::isend(input.tensor, dst, options); }), itself(py::none())};
}

void bind_gathers(py::module_& m) {
  const auto name = py::arg("name") = py::none();
  const std::string all =
      "Concatenate all ranks' tensors along the first axis, in rank order.\n\n"
      "First extents may differ or be 0; the others and the dtype may not.";
  define_collective(m, "allgather", &hvd::allgather_async, &collective_options, all, name);
  define_collective(m, "grouped_allgather", &hvd::grouped_allgather_async, &collective_options, all,
                    name);
  define_collective<MaybeArrayT>(
      m, "gather", &hvd::gather_async, &collective_options,
      "Concatenate all ranks' tensors along the first axis on rank ``root_rank``; None on the\n"
      "others.",
      py::arg("root_rank"), name);
}

void bind_broadcasts(py::module_& m) {
  const auto define = [&](const char* name, auto start) {
    define_collective(m, name, start, &collective_options,
                      "Give the values of rank ``root_rank`` (of the job, also in a process set) "
                      "to every rank.\n\n"
                      "On other ranks the tensor only gives shape and dtype.",
                      py::arg("root_rank"), py::arg("name") = py::none());
  };
  define("broadcast", &hvd::broadcast_async);
  define("broadcast_", &hvd::broadcast_async_);
  define("grouped_broadcast", &hvd::grouped_broadcast_async);
  define("grouped_broadcast_", &hvd::grouped_broadcast_async_);
}

void bind_exchanges(py::module_& m) {
  const auto tensor = py::arg("tensor");
  const auto splits = py::arg("splits") = py::none(), name = py::arg("name") = py::none();
  const auto set = process_set_arg(m);
  define_collective(
      m, "scatter", &hvd::scatter_async, &split_options,
      "Give every rank its rows of the tensor of rank ``root_rank``.\n\n"
      "``splits`` (on the root) are the rows for each rank, in rank order; None = equal parts.\nOn "
      "other ranks ``tensor`` only gives dtype and row shape.",
      py::arg("root_rank"), splits, name);
  const std::string doc = collective_doc(
      "Give every rank its rows of every rank's tensor, in rank order.\n\n"
      "``splits`` are the rows for each rank; None = equal parts. Returns the output, and with\n"
      "``splits`` (and from the async form always) a pair (output, received splits).",
      /*several=*/false, /*in_place=*/false);
  m.def("alltoall_async", &alltoall_async, tensor, splits, name, set, doc.c_str());
  m.def("alltoall", &alltoall, tensor, splits, name, set, doc.c_str());
  m.def("alltoall", &alltoall_of, tensor, py::arg("splits"), name, set);
}

void bind_meetings(py::module_& m) {
  const auto name = Arg("name", "pairs this call across ranks; None numbers it.") = py::none();
  const auto set = process_set_arg(m);
  constexpr Raises kEnded{"HorovodInternalError: the job ended."};
  const std::string meet = docstring(
      "Return when all ranks of the set have called it; what was submitted before may still run.",
      name, ArgText{"process_set: the ranks that meet."},
      Returns{"None; the async form a handle for poll() and synchronize()."},
      Invalid{"before init(), or this rank is not in ``process_set`` or has joined."}, kEnded);
  define_both<None>(m, "barrier", std::function(&barrier_async), meet, name, set);
  const auto average =
      Arg("average",
          "\"contributed\": averages divide by the ranks that still contribute; \"size\": by the "
          "size\n        of the set, as in Horovod.") = "contributed";
  const std::string join = docstring(
      R"(Say that this rank has no more data, and wait until all ranks of the set have.

Meanwhile it takes part in what the others submit with neutral elements: zeros in sums, no rows in
allgathers. A broadcast from a rank that has joined is a MismatchError for the others.)",
      average, ArgText{"process_set: the ranks that join."},
      Returns{"The rank that joined last, on every rank; then calls are possible again."},
      Invalid{"this rank has calls of the set in flight."}, kEnded);
  define_both<py::int_>(m, "join", std::function(&join_async), join, average, set);
}

void bind_transfers(py::module_& m) {
  const auto tag = Arg("tag", "a number, at least 0.") = 0;
  const auto set = process_set_arg(m);
  constexpr ArgText kBoth{"process_set: a set that has both ranks."};
  constexpr Raises kDiffer{
      "MismatchError: the ranks differ in dtype or number of elements; raised on both."};
  constexpr Raises kEnded{"HorovodInternalError: the job ended."};
  constexpr Arg tensor{"tensor", "a Tensor or array of any shape and supported dtype."};
  constexpr Arg dst{"dst", "a rank of the job."}, src{"src", "a rank of the job."};
  const std::string sends = docstring(
      R"(Send a tensor to rank ``dst``, which receives it with the same tag.

Transfers between two ranks with one tag are paired in the order of their calls. No data moves
before both ranks have made theirs.)",
      tensor, dst, tag, kBoth,
      Returns{"None; the async form a handle for poll() and synchronize()."},
      Invalid{"``dst`` is this rank or no rank of the set, or ``tag`` is negative."}, kDiffer,
      Raises{"StalledError: the other rank did not come within the stall limit."}, kEnded);
  m.def("isend", &isend, tensor, dst, tag, set, sends.c_str());
  m.def("send", waiting<None>(std::function(&isend)), tensor, dst, tag, set, sends.c_str());
  const std::string receives =
      docstring("Overwrite ``tensor`` with what rank ``src`` sends with the same tag; see send().",
                Arg("tensor", "contiguous and writable; must not be touched until the call ended."),
                src, tag, kBoth,
                Returns{"``tensor``, of unchanged shape; the async form a handle for poll() and "
                        "synchronize()."},
                Invalid{"``src`` is this rank or no rank of the set, or the memory is unsuitable."},
                kDiffer, kEnded);
  const auto irecv = for_python(&hvd::irecv, &transfer_options, /*writes=*/true);
  m.def("irecv", irecv, tensor, src, tag, set, receives.c_str());
  m.def("recv", waiting<ArrayT>(irecv), tensor, src, tag, set, receives.c_str());
}

}  // namespace

void bind_movement(py::module_& m) {
  bind_gathers(m);
  bind_broadcasts(m);
  bind_exchanges(m);
  bind_meetings(m);
  bind_transfers(m);
}

}  // namespace hvd::python
