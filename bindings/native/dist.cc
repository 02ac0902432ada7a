#include "bindings/native/dist.h"

#include <pybind11/native_enum.h>

#include "core/base/reduce_op.h"
#include "core/base/status.h"

namespace hvd::python {

const char* const kCollectiveDoc = R"(

Args:
    tensor: a Tensor or NumPy array of any supported dtype, any memory layout.
    name: pairs this call across ranks; unique among the calls of its kind and set in flight. None
        numbers the call: then all ranks must make their unnamed calls of one kind in one order.
    process_set: the ranks among which the call runs; all of them make it, and nobody else.

Returns:
    A new Tensor or array, like ``tensor``; the async form a handle for poll() and synchronize().

Raises:
    TypeError: ``tensor`` is something else, or of an unsupported dtype.
    InvalidArgumentError: before init(), ``name`` is in flight already, an argument does not fit, or
        this rank is not in ``process_set`` or has joined.
    MismatchError: ranks disagree on dtype, shape, op, root, scale or compression; raised on every
        rank, and the job goes on.
    HorovodInternalError: the job ended (StalledError, PeerLostError, AbortedError).)";

const char* const kInPlaceDoc = R"(

The result overwrites ``tensor``, which must be contiguous and writable (InvalidArgumentError) and
must not be touched until the call ended. Returns ``tensor``; else as the form without underscore.)";

bool PendingResult::poll() const {
  return without_gil([this] { return wait_for_(Duration::zero()); });
}

py::object PendingResult::synchronize() const {
  while (!without_gil([this] { return wait_for_(std::chrono::milliseconds(100)); })) {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  return convert_(without_gil([this] { return result_(); }));
}

namespace {

// What the mean of an array is, for instance; it becomes an array without axes.
bool is_numpy_scalar(const py::handle& object) {
  return py::isinstance(object, py::module_::import("numpy").attr("generic"));
}

// ensure() is fast, but keeps to itself what went wrong (no memory for a copy); asarray() tells.
py::array dense_array(const py::handle& object) {
  py::array dense = py::array::ensure(object, py::array::c_style);
  if (dense) return dense;
  return py::module_::import("numpy").attr("asarray")(object, py::arg("order") = "C");
}

}  // namespace

Input::Input(const py::handle& object)
    : is_numpy(py::isinstance<py::array>(object) || is_numpy_scalar(object)) {
  tensor = is_numpy ? wrap_array(dense_array(object)) : tensor_from(object);
  if (!tensor.is_contiguous()) tensor = tensor.contiguous();
}

py::object Input::as_given(const Tensor& result, bool is_numpy) {
  if (!result.defined()) return py::none();
  if (is_numpy) return tensor_to_numpy(result);
  return py::cast(result);
}

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

std::vector<Tensor> targets_from(const py::handle& objects) {
  std::vector<Tensor> targets;
  for (const py::handle& object : objects) targets.push_back(target_from(object));
  return targets;
}

InputList::InputList(const py::handle& objects) {
  for (const py::handle& object : objects) {
    const Input input(object);
    tensors.push_back(input.tensor);
    is_numpy.push_back(input.is_numpy);
  }
}

PendingResult::Convert InputList::all_like() const {
  return [is_numpy = is_numpy](const CallResult& result) {
    py::list list;
    for (std::size_t i = 0; i < result.tensors.size(); ++i) {
      list.append(Input::as_given(result.tensors[i], is_numpy[i]));
    }
    return py::object(std::move(list));
  };
}

PendingResult::Convert one_like(const Input& input) {
  return [is_numpy = input.is_numpy](const CallResult& result) {
    return Input::as_given(take_result<Tensor>(result), is_numpy);
  };
}

PendingResult::Convert itself(py::object object) {
  return [object = std::move(object)](const CallResult&) { return object; };
}

void bind_dist(py::module_& m) {
  py::native_enum<ReduceOp>(m, "ReduceOp", "enum.IntEnum",
                            "How ranks' values are combined. Average is the sum divided by the "
                            "ranks that contribute; BitAnd and BitOr are for integers and bool.")
      .value("Average", ReduceOp::kAverage)
      .value("Sum", ReduceOp::kSum)
      .value("Adasum", ReduceOp::kAdasum)
      .value("Min", ReduceOp::kMin)
      .value("Max", ReduceOp::kMax)
      .value("Product", ReduceOp::kProduct)
      .value("BitAnd", ReduceOp::kBitAnd)
      .value("BitOr", ReduceOp::kBitOr)
      .export_values()
      .finalize();
  py::class_<PendingResult>(m, "Handle",
                            "A collective call in flight. Dropping it cancels nothing.")
      .def("poll", &PendingResult::poll, "Whether synchronize() would not block.")
      .def("synchronize", &PendingResult::synchronize,
           "Wait for the result; raises what the call failed with. May be called again.");
  m.def("poll", &PendingResult::poll, py::arg("handle").none(false),
        "Whether synchronize(handle) would not block.");
  m.def("synchronize", &PendingResult::synchronize, py::arg("handle").none(false),
        "Wait for a call's result; raises what it failed with. May be called again.");
  bind_process_sets(m);
  bind_compression(m);
  bind_session(m);
  bind_reductions(m);
  bind_sparse(m);
  bind_movement(m);
  bind_memory(m);
  bind_training(m);
  bind_whole_models(m);
  bind_observability(m);
}

}  // namespace hvd::python
