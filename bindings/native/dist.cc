#include <pybind11/functional.h>
#include <pybind11/native_enum.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "bindings/native/bindings.h"
#include "core/base/status.h"
#include "horovod_cpp/dist/broadcast.h"
#include "horovod_cpp/dist/collectives.h"
#include "horovod_cpp/dist/distributed_optimizer.h"
#include "horovod_cpp/dist/session.h"

namespace hvd::python {
namespace {

using MaybeName = std::optional<std::string>;

// A collective call in flight; gives its result in the type of its input.
class PendingResult {
 public:
  PendingResult(CollectiveHandle handle, bool as_numpy)
      : handle_(std::move(handle)), as_numpy_(as_numpy) {}
  // In place: the result is `target` itself.
  PendingResult(CollectiveHandle handle, py::object target)
      : handle_(std::move(handle)), target_(std::move(target)) {}

  bool poll() const { return handle_.poll(); }

  py::object synchronize() const {
    wait_for_end_or_signal();
    const Tensor result = handle_.synchronize();
    if (target_) return target_;
    if (as_numpy_) return tensor_to_numpy(result);
    return py::cast(result);
  }

 private:
  // Without the GIL, but so that Ctrl-C raises KeyboardInterrupt soon.
  void wait_for_end_or_signal() const {
    const auto ended = [this] {
      const py::gil_scoped_release nogil;
      return handle_.wait_for(std::chrono::milliseconds(100));
    };
    while (!ended()) {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
  }

  CollectiveHandle handle_;
  bool as_numpy_ = false;
  py::object target_;
};

// What a call reads: a dense tensor, and whether the caller gave an array.
struct Input {
  explicit Input(const py::handle& object) : is_numpy(py::isinstance<py::array>(object)) {
    tensor =
        is_numpy ? wrap_array(py::array::ensure(object, py::array::c_style)) : tensor_from(object);
    if (!tensor.is_contiguous()) tensor = tensor.contiguous();
  }
  Tensor tensor;
  bool is_numpy = false;
};

// What a call writes: the caller's own memory.
Tensor target_from(const py::handle& object) {
  Tensor tensor = py::isinstance<py::array>(object)
                      ? tensor_from_numpy(py::reinterpret_borrow<py::array>(object))
                      : tensor_from(object);
  if (!tensor.is_contiguous()) {
    throw InvalidArgumentError("an in-place call needs contiguous memory; this tensor of shape " +
                               to_string(tensor.shape()) + " is not");
  }
  return tensor;
}

PendingResult allreduce_async(const py::handle& tensor, ReduceOp op, const MaybeName& name) {
  const Input input(tensor);
  const py::gil_scoped_release nogil;
  return {hvd::allreduce_async(input.tensor, op, name.value_or("")), input.is_numpy};
}

PendingResult allgather_async(const py::handle& tensor, const MaybeName& name) {
  const Input input(tensor);
  const py::gil_scoped_release nogil;
  return {hvd::allgather_async(input.tensor, name.value_or("")), input.is_numpy};
}

PendingResult broadcast_async(const py::handle& tensor, int root_rank, const MaybeName& name) {
  const Input input(tensor);
  const py::gil_scoped_release nogil;
  return {hvd::broadcast_async(input.tensor, root_rank, name.value_or("")), input.is_numpy};
}

template <typename Start>
PendingResult in_place(const py::object& object, Start&& start) {
  Tensor target = target_from(object);
  CollectiveHandle handle;
  {
    const py::gil_scoped_release nogil;
    handle = start(target);
  }
  return {std::move(handle), object};
}

PendingResult allreduce_async_(const py::object& tensor, ReduceOp op, const MaybeName& name) {
  return in_place(tensor,
                  [&](Tensor& t) { return hvd::allreduce_async_(t, op, name.value_or("")); });
}

PendingResult broadcast_async_(const py::object& tensor, int root_rank, const MaybeName& name) {
  return in_place(
      tensor, [&](Tensor& t) { return hvd::broadcast_async_(t, root_rank, name.value_or("")); });
}

void bind_session(py::module_& m) {
  m.def("init", &init, ReleaseGil(),
        R"(Find the other ranks of this job and connect to them; collective.

A program that no launcher started is a world of one rank. Does nothing while initialised; may be
called again after shutdown().

Raises:
    InvalidArgumentError: a HOROVOD_* variable is malformed.
    UnsupportedError: a launcher started this process that cannot be understood.
    StalledError: ranks did not come within HOROVOD_START_TIMEOUT seconds; the message names them.)");
  m.def("shutdown", &shutdown, ReleaseGil(),
        R"(Leave the job in order: what is complete on all ranks still runs, the rest fails with
AbortedError here and on the other ranks. Does nothing when not initialised; runs at exit too,
unless an exception that nobody caught ends the program: then the other ranks lose this one.)");
  m.def("is_initialized", &is_initialized, "Whether init() was called, and shutdown() not since.");
  m.def("rank", &rank, "This process's number among all, 0 to size()-1. Needs init().");
  m.def("size", &size, "Number of ranks in the job. Needs init().");
  m.def("local_rank", &local_rank, "This process's number on its host. Needs init().");
  m.def("local_size", &local_size, "Number of ranks on this host. Needs init().");
  m.def("cross_rank", &cross_rank,
        "This host's number among those that have this local_rank. Needs init().");
  m.def("cross_size", &cross_size, "Number of hosts that have this local_rank. Needs init().");
}

constexpr const char* kCollectiveDoc = R"(

Args:
    tensor: a Tensor or NumPy array of any supported dtype, any memory layout.
    name: pairs this call across ranks; unique among the calls of its kind in flight. None numbers
        the call: then all ranks must make their unnamed calls of one kind in the same order.

Returns:
    A new Tensor or array, like ``tensor``; the async form a handle for poll() and synchronize().

Raises:
    TypeError: ``tensor`` is something else, or of an unsupported dtype.
    InvalidArgumentError: before init(), or ``name`` is in flight already.
    MismatchError: ranks disagree on dtype, shape, op or root; raised on every rank, and the job
        goes on.
    HorovodInternalError: the job ended (StalledError, PeerLostError, AbortedError).)";

constexpr const char* kInPlaceDoc = R"(

The result overwrites ``tensor``, which must be contiguous and writable (InvalidArgumentError) and
must not be touched until the call ended. Returns ``tensor``; else as the form without underscore.)";

void bind_allreduce(py::module_& m) {
  const auto tensor = py::arg("tensor");
  const auto op = py::arg("op") = ReduceOp::kAverage;
  const auto name = py::arg("name") = py::none();
  const std::string what =
      "Reduce element by element over all ranks; bitwise equal on every rank.\n\n"
      "``op`` is Average, Sum, Min, Max or Product. float16 and bfloat16 accumulate in float32;\n"
      "integer averages are truncated towards zero.";
  m.def("allreduce_async", &allreduce_async, tensor, op, name, (what + kCollectiveDoc).c_str());
  m.def(
      "allreduce",
      [](const py::handle& t, ReduceOp o, const MaybeName& n) {
        return allreduce_async(t, o, n).synchronize();
      },
      tensor, op, name, (what + kCollectiveDoc).c_str());
  m.def("allreduce_async_", &allreduce_async_, tensor, op, name, (what + kInPlaceDoc).c_str());
  m.def(
      "allreduce_",
      [](const py::object& t, ReduceOp o, const MaybeName& n) {
        return allreduce_async_(t, o, n).synchronize();
      },
      tensor, op, name, (what + kInPlaceDoc).c_str());
}

void bind_allgather(py::module_& m) {
  const std::string doc =
      std::string(
          "Concatenate all ranks' tensors along the first axis, in rank order.\n\n"
          "First extents may differ or be 0; the others and the dtype may not.") +
      kCollectiveDoc;
  m.def("allgather_async", &allgather_async, py::arg("tensor"), py::arg("name") = py::none(),
        doc.c_str());
  m.def(
      "allgather",
      [](const py::handle& t, const MaybeName& n) { return allgather_async(t, n).synchronize(); },
      py::arg("tensor"), py::arg("name") = py::none(), doc.c_str());
}

void bind_broadcast(py::module_& m) {
  const auto tensor = py::arg("tensor");
  const auto root = py::arg("root_rank");
  const auto name = py::arg("name") = py::none();
  const std::string what =
      "Give the values of rank ``root_rank`` to every rank.\n\n"
      "On other ranks ``tensor`` tells shape and dtype only.";
  m.def("broadcast_async", &broadcast_async, tensor, root, name, (what + kCollectiveDoc).c_str());
  m.def(
      "broadcast",
      [](const py::handle& t, int r, const MaybeName& n) {
        return broadcast_async(t, r, n).synchronize();
      },
      tensor, root, name, (what + kCollectiveDoc).c_str());
  m.def("broadcast_async_", &broadcast_async_, tensor, root, name, (what + kInPlaceDoc).c_str());
  m.def(
      "broadcast_",
      [](const py::object& t, int r, const MaybeName& n) {
        return broadcast_async_(t, r, n).synchronize();
      },
      tensor, root, name, (what + kInPlaceDoc).c_str());
}

void bind_state(py::module_& m) {
  m.def(
      "broadcast_parameters",
      [](const py::handle& state, int root_rank) {
        const NamedTensors tensors = named_tensors_from(state);
        const py::gil_scoped_release nogil;
        broadcast_parameters(tensors, root_rank);
      },
      py::arg("state"), py::arg("root_rank") = 0,
      R"(Overwrite every tensor with the values of rank ``root_rank``; collective.

Args:
    state: a state dict or pairs (name, Tensor or NumPy array), the same names, shapes and dtypes
        on every rank.

Raises:
    MismatchError: they are not the same; raised on every rank.)");
  m.def(
      "broadcast_optimizer_state",
      [](optim::Optimizer& optimizer, int root_rank) {
        broadcast_optimizer_state(optimizer, root_rank);
      },
      py::arg("optimizer"), py::arg("root_rank") = 0, ReleaseGil(),
      R"(Make options (learning rates and so on) and state those of rank ``root_rank``; collective.

Takes no step. Missing state is created, surplus state is dropped.

Raises:
    InvalidArgumentError: the parameter groups differ from the root's; raised on every rank.)");
  m.def(
      "_broadcast_bytes",
      [](const std::string_view bytes, int root_rank, const std::string& name) {
        const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
        Bytes object(first, first + bytes.size());
        {
          const py::gil_scoped_release nogil;
          object = broadcast_object(std::move(object), root_rank, name);
        }
        return py::bytes(reinterpret_cast<const char*>(object.data()), object.size());
      },
      py::arg("object"), py::arg("root_rank"), py::arg("name"));
}

void bind_optimizer(py::module_& m) {
  py::classh<DistributedOptimizer, optim::Optimizer>(
      m, "DistributedOptimizer",
      R"(Decorates an optimizer: gradients are reduced over all ranks before each update.

When backward() has finished a parameter's gradient, its reduction starts while the rest of
backward() still runs; step() waits for all of them and lets the wrapped optimizer update. In a
world of one rank it only forwards. Used by the thread that calls backward().

Args:
    optimizer: the optimizer to wrap.
    named_parameters: pairs (name, Tensor) or a dict that name every parameter; None numbers them.
    op: how gradients are combined, usually Average.
    backward_passes_per_step: gradients are summed over this many passes before they are reduced.

Raises:
    InvalidArgumentError: before init(), names repeat or miss a parameter, or
        ``backward_passes_per_step`` < 1.)")
      .def(py::init([](std::shared_ptr<optim::Optimizer> optimizer,
                       const py::object& named_parameters, ReduceOp op,
                       int backward_passes_per_step) {
             NamedTensors named;
             if (!named_parameters.is_none()) named = named_tensors_from(named_parameters);
             return std::make_shared<DistributedOptimizer>(
                 std::move(optimizer), std::move(named),
                 DistributedOptions{op, backward_passes_per_step, nullptr});
           }),
           py::arg("optimizer"), py::arg("named_parameters") = py::none(),
           py::arg("op") = ReduceOp::kAverage, py::arg("backward_passes_per_step") = 1)
      .def("synchronize", &DistributedOptimizer::synchronize, ReleaseGil(),
           "Wait until every gradient is reduced; call it before reading or clipping gradients.");
}

}  // namespace

void bind_dist(py::module_& m) {
  py::native_enum<ReduceOp>(m, "ReduceOp", "enum.Enum",
                            "How ranks' values are combined; Average is the sum over size().")
      .value("Average", ReduceOp::kAverage)
      .value("Sum", ReduceOp::kSum)
      .value("Min", ReduceOp::kMin)
      .value("Max", ReduceOp::kMax)
      .value("Product", ReduceOp::kProduct)
      .export_values()
      .finalize();
  py::class_<PendingResult>(m, "Handle",
                            "A collective call in flight. Dropping it cancels nothing.")
      .def("poll", &PendingResult::poll, "Whether synchronize() would not block.")
      .def("synchronize", &PendingResult::synchronize,
           "Wait for the result; raises what the call failed with. May be called again.");
  m.def("poll", &PendingResult::poll, py::arg("handle"),
        "Whether synchronize(handle) would not block.");
  m.def("synchronize", &PendingResult::synchronize, py::arg("handle"),
        "Wait for a call's result; raises what it failed with. May be called again.");
  bind_session(m);
  bind_allreduce(m);
  bind_allgather(m);
  bind_broadcast(m);
  bind_state(m);
  bind_optimizer(m);
}

}  // namespace hvd::python
