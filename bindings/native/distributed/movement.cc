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

PendingResult allgather_async(const ArrayT& tensor, const MaybeName& name,
                              const PythonProcessSet& set) {
  const Input input(tensor);
  const auto options = collective_options(name, set);
  return {without_gil([&] { return hvd::allgather_async(input.tensor, options); }),
          one_like(input)};
}

PendingResult grouped_allgather_async(const ArraysT& tensors, const MaybeName& name,
                                      const PythonProcessSet& set) {
  const InputList inputs(tensors);
  const auto options = collective_options(name, set);
  return {without_gil([&] { return hvd::grouped_allgather_async(inputs.tensors, options); }),
          inputs.all_like()};
}

PendingResult gather_async(const ArrayT& tensor, Given<int> root_rank, const MaybeName& name,
                           const PythonProcessSet& set) {
  const Input input(tensor);
  const auto options = collective_options(name, set);
  return {without_gil([&] { return hvd::gather_async(input.tensor, root_rank, options); }),
          one_like(input)};
}

PendingResult broadcast_async(const ArrayT& tensor, Given<int> root_rank, const MaybeName& name,
                              const PythonProcessSet& set) {
  const Input input(tensor);
  const auto options = collective_options(name, set);
  return {without_gil([&] { return hvd::broadcast_async(input.tensor, root_rank, options); }),
          one_like(input)};
}

PendingResult broadcast_async_(const ArrayT& tensor, Given<int> root_rank, const MaybeName& name,
                               const PythonProcessSet& set) {
  const Tensor target = target_from(tensor);
  const auto options = collective_options(name, set);
  return {without_gil([&] { return hvd::broadcast_async_(target, root_rank, options); }),
          itself(tensor)};
}

PendingResult grouped_broadcast_async(const ArraysT& tensors, Given<int> root_rank,
                                      const MaybeName& name, const PythonProcessSet& set) {
  const InputList inputs(tensors);
  const auto options = collective_options(name, set);
  return {
      without_gil([&] { return hvd::grouped_broadcast_async(inputs.tensors, root_rank, options); }),
      inputs.all_like()};
}

PendingResult grouped_broadcast_async_(const ArraysT& tensors, Given<int> root_rank,
                                       const MaybeName& name, const PythonProcessSet& set) {
  const std::vector<Tensor> targets = targets_from(tensors);
  const auto options = collective_options(name, set);
  return {without_gil([&] { return hvd::grouped_broadcast_async_(targets, root_rank, options); }),
          itself(tensors)};
}

PendingResult scatter_async(const ArrayT& tensor, Given<int> root_rank, const MaybeSplits& splits,
                            const MaybeName& name, const PythonProcessSet& set) {
  const Input input(tensor);
  const auto options = split_options(splits, name, set);
  return {without_gil([&] { return hvd::scatter_async(input.tensor, root_rank, options); }),
          one_like(input)};
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
  const PointToPointOptions options{.tag = tag, .process_set = set.registered()};
  return {without_gil([&] { return hvd::isend(input.tensor, dst, options); }), itself(py::none())};
}

PendingResult irecv(const ArrayT& tensor, Given<int> src, Given<int> tag,
                    const PythonProcessSet& set) {
  const Tensor target = target_from(tensor);
  const PointToPointOptions options{.tag = tag, .process_set = set.registered()};
  return {without_gil([&] { return hvd::irecv(target, src, options); }), itself(tensor)};
}

void bind_gathers(py::module_& m) {
  const auto name = py::arg("name") = py::none();
  const std::string all =
      "Concatenate all ranks' tensors along the first axis, in rank order.\n\n"
      "First extents may differ or be 0; the others and the dtype may not.";
  const std::string each = all + kCollectiveDoc, list = all + kGroupedDoc;
  m.def("allgather_async", &allgather_async, py::arg("tensor"), name, process_set_arg(m),
        each.c_str());
  m.def("allgather", waiting<ArrayT>(&allgather_async), py::arg("tensor"), name, process_set_arg(m),
        each.c_str());
  m.def("grouped_allgather_async", &grouped_allgather_async, py::arg("tensors"), name,
        process_set_arg(m), list.c_str());
  m.def("grouped_allgather", waiting<ArrayList>(&grouped_allgather_async), py::arg("tensors"), name,
        process_set_arg(m), list.c_str());
  const std::string root =
      "Concatenate all ranks' tensors along the first axis on rank ``root_rank``; None on the\n"
      "others." +
      std::string(kCollectiveDoc);
  m.def("gather_async", &gather_async, py::arg("tensor"), py::arg("root_rank"), name,
        process_set_arg(m), root.c_str());
  m.def("gather", waiting<MaybeArrayT>(&gather_async), py::arg("tensor"), py::arg("root_rank"),
        name, process_set_arg(m), root.c_str());
}

void bind_broadcasts(py::module_& m) {
  const std::string what =
      "Give the values of rank ``root_rank`` (of the job, also in a process set) to every rank.\n\n"
      "On other ranks the tensor tells shape and dtype only.";
  const auto def = [&](const char* name, auto function, const char* tensor,
                       const std::string& doc) {
    m.def(name, function, py::arg(tensor), py::arg("root_rank"), py::arg("name") = py::none(),
          process_set_arg(m), doc.c_str());
  };
  def("broadcast_async", &broadcast_async, "tensor", what + kCollectiveDoc);
  def("broadcast", waiting<ArrayT>(&broadcast_async), "tensor", what + kCollectiveDoc);
  def("broadcast_async_", &broadcast_async_, "tensor", what + kInPlaceDoc);
  def("broadcast_", waiting<ArrayT>(&broadcast_async_), "tensor", what + kInPlaceDoc);
  def("grouped_broadcast_async", &grouped_broadcast_async, "tensors", what + kGroupedDoc);
  def("grouped_broadcast", waiting<ArrayList>(&grouped_broadcast_async), "tensors",
      what + kGroupedDoc);
  def("grouped_broadcast_async_", &grouped_broadcast_async_, "tensors", what + kGroupedInPlaceDoc);
  def("grouped_broadcast_", waiting<ArrayList>(&grouped_broadcast_async_), "tensors",
      what + kGroupedInPlaceDoc);
}

void bind_exchanges(py::module_& m) {
  const auto splits = py::arg("splits") = py::none();
  const auto name = py::arg("name") = py::none();
  const std::string scatter_doc =
      "Give every rank its rows of the tensor of rank ``root_rank``.\n\n"
      "``splits`` (on the root) are the rows for each rank, in rank order; None = equal parts.\n"
      "On other ranks ``tensor`` tells dtype and row shape only." +
      std::string(kCollectiveDoc);
  m.def("scatter_async", &scatter_async, py::arg("tensor"), py::arg("root_rank"), splits, name,
        process_set_arg(m), scatter_doc.c_str());
  m.def("scatter", waiting<ArrayT>(&scatter_async), py::arg("tensor"), py::arg("root_rank"), splits,
        name, process_set_arg(m), scatter_doc.c_str());
  const std::string alltoall_doc =
      "Give every rank its rows of every rank's tensor, in rank order.\n\n"
      "``splits`` are the rows for each rank; None = equal parts. Returns the output, and with\n"
      "``splits`` (and from the async form always) a pair (output, received splits)." +
      std::string(kCollectiveDoc);
  m.def("alltoall_async", &alltoall_async, py::arg("tensor"), splits, name, process_set_arg(m),
        alltoall_doc.c_str());
  m.def("alltoall", &alltoall, py::arg("tensor"), splits, name, process_set_arg(m),
        alltoall_doc.c_str());
  m.def("alltoall", &alltoall_of, py::arg("tensor"), py::arg("splits"), name, process_set_arg(m));
}

void bind_meetings(py::module_& m) {
  constexpr const char* kBarrierDoc =
      R"(Return when all ranks of the set have called it; what was submitted before may still run.

Args:
    name: pairs this call across ranks; None numbers it.
    process_set: the ranks that meet.

Returns:
    None; the async form a handle for poll() and synchronize().

Raises:
    InvalidArgumentError: before init(), or this rank is not in ``process_set`` or has joined.
    HorovodInternalError: the job ended.)";
  m.def("barrier_async", &barrier_async, py::arg("name") = py::none(), process_set_arg(m),
        kBarrierDoc);
  m.def("barrier", waiting<None>(&barrier_async), py::arg("name") = py::none(), process_set_arg(m),
        kBarrierDoc);
  constexpr const char* kJoinDoc =
      R"(Say that this rank has no more data, and wait until all ranks of the set have.

Meanwhile it takes part in what the others submit with neutral elements: zeros in sums, no rows in
allgathers. A broadcast from a rank that has joined is a MismatchError for the others.

Args:
    average: "contributed": averages divide by the ranks that still contribute; "size": by the size
        of the set, as in Horovod.
    process_set: the ranks that join.

Returns:
    The rank that joined last, on every rank; then calls are possible again.

Raises:
    InvalidArgumentError: this rank has calls of the set in flight.
    HorovodInternalError: the job ended.)";
  m.def("join_async", &join_async, py::arg("average") = "contributed", process_set_arg(m),
        kJoinDoc);
  m.def("join", waiting<py::int_>(&join_async), py::arg("average") = "contributed",
        process_set_arg(m), kJoinDoc);
}

void bind_transfers(py::module_& m) {
  constexpr const char* kSendDoc =
      R"(Send a tensor to rank ``dst``, which receives it with the same tag.

Transfers between two ranks with one tag meet in the order of their calls. No data moves before both
ranks are there.

Args:
    tensor: a Tensor or array of any shape and supported dtype.
    dst: a rank of the job.
    tag: a number, at least 0.
    process_set: a set that has both ranks.

Returns:
    None; the async form a handle for poll() and synchronize().

Raises:
    InvalidArgumentError: ``dst`` is this rank or no rank of the set, or ``tag`` is negative.
    MismatchError: the ranks differ in dtype or number of elements; raised on both.
    StalledError: the other rank did not come within the stall limit.
    HorovodInternalError: the job ended.)";
  constexpr const char* kReceiveDoc =
      R"(Overwrite ``tensor`` with what rank ``src`` sends with the same tag; see send().

Args:
    tensor: contiguous and writable; must not be touched until the call ended.
    src: a rank of the job.
    tag: a number, at least 0.
    process_set: a set that has both ranks.

Returns:
    ``tensor``, of unchanged shape; the async form a handle for poll() and synchronize().

Raises:
    InvalidArgumentError: ``src`` is this rank or no rank of the set, or the memory does not do.
    MismatchError: the ranks differ in dtype or number of elements; raised on both.
    HorovodInternalError: the job ended.)";
  const auto tag = py::arg("tag") = 0;
  m.def("isend", &isend, py::arg("tensor"), py::arg("dst"), tag, process_set_arg(m), kSendDoc);
  m.def("send", waiting<None>(&isend), py::arg("tensor"), py::arg("dst"), tag, process_set_arg(m),
        kSendDoc);
  m.def("irecv", &irecv, py::arg("tensor"), py::arg("src"), tag, process_set_arg(m), kReceiveDoc);
  m.def("recv", waiting<ArrayT>(&irecv), py::arg("tensor"), py::arg("src"), tag, process_set_arg(m),
        kReceiveDoc);
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
