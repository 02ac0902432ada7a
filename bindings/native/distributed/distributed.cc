#include "bindings/native/distributed/distributed.h"

#include <pybind11/native_enum.h>

#include <algorithm>
#include <cctype>

#include "bindings/native/tensor/dlpack.h"
#include "core/base/reduction.h"
#include "core/base/status.h"
#include "core/config/unknown_variables.h"
#include "horovod_cpp/tensor/device.h"

namespace hvd::python {

std::string collective_doc(const std::string& what, bool several, bool in_place) {
  Docstring doc(what);
  if (several) {
    doc.add(Remark{"Runs as one call: all or none are submitted, all fail together."});
    doc.add(in_place
                ? ArgText{"tensors: as ``tensor`` of the form for one; results overwrite them."}
                : ArgText{"tensors: Tensors or arrays; shapes and dtypes may differ."});
  } else if (in_place) {
    doc.add(ArgText{
        R"(tensor: a Tensor, NumPy array or one with DLPack, contiguous and writable: the result overwrites
        it. It must not be touched until the call ended; autograd does not see the write.)"});
  } else {
    doc.add(ArgText{
        R"(tensor: a Tensor, a NumPy array or an array of another library with DLPack (PyTorch, JAX, CuPy),
        in the CPU's memory or, with HVD_GPU_OPERATIONS, that of the rank's CUDA device, of any
        supported dtype; read where it lies if it is contiguous, else (on the CPU) copied first. A
        GPU's is read after what its library makes the engine's stream wait for. Of what requires
        grad the values are taken, and nothing is recorded.)"});
  }
  doc.add(ArgText{
      R"(name: pairs this call across ranks. It may be used again when its call has ended, which the
        handle tells, or once the handle is dropped: then calls of one name run one after another.
        None numbers the call: then all ranks must make their unnamed calls of one kind in one
        order.)"});
  doc.add(ArgText{
      "process_set: the ranks among which the call runs; all of them make it, and no others."});
  if (in_place) {
    doc.add(several
                ? Returns{"``tensors``, of unchanged shapes; the async form a handle for poll() "
                          "and synchronize()."}
                : Returns{"``tensor``, of unchanged shape; the async form a handle for poll() "
                          "and synchronize()."});
    doc.add(Invalid{"the memory is not contiguous, or read-only."});
  } else if (several) {
    doc.add(
        Returns{"A list of arrays of the kinds of ``tensors``; the async form a handle for poll() "
                "and\n    synchronize()."});
  } else {
    doc.add(Returns{
        R"(A new array of the kind of ``tensor``: a Tensor, a NumPy array, or what ``from_dlpack`` of its
    library makes (its ``__array_namespace__()``, or the module of its class; without one a Tensor).
    The async form returns a handle for poll() and synchronize().)"});
  }
  doc.add(Raises{
      "TypeError: a tensor is something else, or of an unsupported dtype; another argument is of a "
      "wrong\n        type."});
  doc.add(Raises{
      R"(UnsupportedError: a tensor is on a GPU, and the job has no collectives of GPUs, or this rank's
        run on another one.)"});
  doc.add(Invalid{
      R"(before init(), ``name`` is in flight under a handle that is not dropped, an
        argument does not fit, or this rank is not in ``process_set`` or has joined.)"});
  doc.add(Raises{
      R"(MismatchError: ranks disagree on dtype, shape, op, root, scale, compression or the number of
        tensors; raised on every rank, and the job goes on.)"});
  doc.add(
      Raises{"HorovodInternalError: the job ended (StalledError, PeerLostError, AbortedError)."});
  return doc.text();
}

bool PendingResult::wait_until(TimePoint deadline) const {
  const auto call = call_;  // another thread may be in synchronize()
  return call == nullptr || without_gil([&] { return call->wait_until(deadline); });
}

bool PendingResult::wait_for(double seconds) const {
  const std::chrono::duration<double> limit(seconds > 0 ? std::min(seconds, 1e9) : 0);
  return wait_until(Clock::now() + std::chrono::duration_cast<Duration>(limit));
}

Anything PendingResult::result(MaybeStream reader) const {
  static const CallResult nothing;
  const auto call = call_;  // another thread may keep_only() the result meanwhile
  const CallResult* result = &nothing;
  if (call != nullptr) result = &without_gil([&]() -> auto& { return call->result(reader); });
  if (made_) return made_;
  if (!finish_) return convert_(*result);
  const Convert convert = convert_;
  const py::object finish = finish_;
  py::object made = finish(convert(*result));
  if (!made_) keep_only(std::move(made));
  return made_;
}

Anything PendingResult::synchronize_on(const StreamOf& stream_of) const {
  if (made_) return made_;
  const Device device = call_ == nullptr ? Device{} : call_->device();
  if (stream_of == nullptr || device.kind == DeviceKind::kCpu) return result({});
  return result(stream_of(device.index));
}

PendingResult PendingResult::then(py::object finish, StreamOf stream_of) const {
  PendingResult next = *this;
  next.stream_of_ = std::move(stream_of);
  next.finish_ = std::move(finish);
  return next;
}

int PendingResult::traverse(visitproc visit, void* arg) const {
  Py_VISIT(finish_.ptr());
  Py_VISIT(made_.ptr());
  return 0;
}

void PendingResult::keep_only(py::object made) const {
  made_ = std::move(made);
  call_ = nullptr;
  convert_ = nullptr;
  finish_ = py::object();
}

namespace {

// What the mean of an array is, for instance; it becomes an array without axes.
bool is_numpy_scalar(const py::handle& object) {
  return py::isinstance(object, py::module_::import("numpy").attr("generic"));
}

// ensure() is fast, but keeps to itself what went wrong (no memory for a copy); require() tells.
py::array dense_array(const py::handle& object) {
  refuse_mask(object);
  constexpr int kDense = int{py::array::c_style} | int{py::detail::npy_api::NPY_ARRAY_ALIGNED_};
  py::array dense = py::array::ensure(object, kDense);
  if (dense) return dense;
  return py::module_::import("numpy").attr("require")(object, py::arg("requirements") = "CA");
}

bool is_numpy(const py::handle& object) {
  return py::isinstance<py::array>(object) || is_numpy_scalar(object);
}

Tensor dense_tensor(const py::handle& object) {
  const Tensor tensor = is_numpy(object) ? wrap_array(dense_array(object)) : tensor_from(object);
  if (tensor.is_contiguous()) return tensor;
  if (tensor.device().kind == DeviceKind::kCpu) return tensor.contiguous();
  throw InvalidArgumentError("this " + type_name(object) + " of shape " +
                             to_string(tensor.shape()) +
                             " lies on a GPU and is not contiguous: pass a contiguous copy");
}

}  // namespace

ArrayKind::ArrayKind(const py::handle& object) : sort_(Sort::kTensor), of_(py::none()) {
  if (py::isinstance<Tensor>(object)) return;
  if (is_numpy(object)) {
    sort_ = Sort::kNumpy;
    const py::object dtype = object.attr("dtype");
    if (dtype.attr("kind").cast<std::string>() == "V") of_ = dtype;
  } else if (speaks_dlpack(object)) {
    is_lent_ = true;
    of_ = library_of(object);
    if (!of_.is_none()) sort_ = Sort::kLibrary;
  }
}

py::object ArrayKind::like(const Tensor& result, const Device& device) const {
  if (is_lent_ && !(result.defined() && sort_ == Sort::kLibrary)) {
    without_gil([&] { hvd::synchronize(device); });
  }
  if (!result.defined()) return py::none();
  if (sort_ == Sort::kLibrary) return to_library(result, of_);
  if (sort_ == Sort::kTensor) return py::cast(result);
  return of_.is_none() ? tensor_to_numpy(result) : tensor_to_numpy(result, of_);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return lower;
}

ReduceOp reduce_op_named(const std::string& name) {
  const std::string wanted = lower_case(name);
  std::vector<std::string> names;
  std::string list;
  for (int number = 0; number < kReduceOpCount; ++number) {
    const auto op = static_cast<ReduceOp>(number);
    names.push_back(lower_case(name_of(op)));
    if (names.back() == wanted) return op;
    list += (list.empty() ? "" : ", ") + names.back();
  }
  throw InvalidArgumentError("op='" + name + "' is not a reduction (" + list + ")" +
                             did_you_mean(wanted, names));
}

Input::Input(const py::handle& object) : kind(object), tensor(dense_tensor(object)) {}

Tensor target_from(const py::handle& object) {
  Tensor tensor = writable_tensor_from(object);
  if (!tensor.is_contiguous()) {
    throw InvalidArgumentError(
        "an in-place call needs contiguous memory, and this array of shape " +
        to_string(tensor.shape()) +
        " is a view with gaps, another order or repeated elements: pass a contiguous copy, or call "
        "the form that returns a new array (without the trailing underscore) if there is one");
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
    kinds.push_back(input.kind);
  }
}

PendingResult::Convert InputList::all_like() const {
  std::vector<Device> devices;
  for (const Tensor& tensor : tensors) devices.push_back(tensor.device());
  return [kinds = kinds, devices](const CallResult& result) {
    py::list list;
    for (std::size_t i = 0; i < result.tensors.size(); ++i) {
      list.append(kinds[i].like(result.tensors[i], devices[i]));
    }
    return py::object(std::move(list));
  };
}

PendingResult::Convert one_like(const Input& input) {
  return [kind = input.kind, device = input.tensor.device()](const CallResult& result) {
    return kind.like(take_result<Tensor>(result), device);
  };
}

PendingResult::Convert itself(py::object object) {
  return [object = std::move(object)](const CallResult&) { return object; };
}

namespace {

void let_collector_look(PyHeapTypeObject* heap_type) {
  PyTypeObject& type = heap_type->ht_type;
  type.tp_flags |= Py_TPFLAGS_HAVE_GC;
  type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!py::detail::is_holder_constructed(self)) return 0;
    return py::cast<PendingResult&>(py::handle(self)).traverse(visit, arg);
  };
  type.tp_clear = [](PyObject* self) {
    py::cast<PendingResult&>(py::handle(self)).keep_only({});
    return 0;
  };
}

void define_handle(py::module_& m) {
  py::class_<PendingResult>(m, "Handle", py::custom_type_setup(&let_collector_look),
                            "A collective call in flight. Dropping it cancels nothing; its name "
                            "may then be used again at "
                            "once, for a call that runs after it.")
      .def("poll", &PendingResult::poll, "Whether synchronize() would not block.")
      .def("wait_for", given(&PendingResult::wait_for), py::arg("seconds"),
           "Wait at most ``seconds``, a number; whether synchronize() would not block.")
      .def(
          "synchronize", &PendingResult::synchronize,
          "Wait for the result; raises what the call failed with. May be called again.\n\n"
          "On a GPU it is there for what is put on the result's stream, of PyTorch's tensors on "
          "its "
          "current\nstream, from now on. Where the call is enqueued and fails later, the job ends, "
          "and whatever is\ncalled next raises.")
      .def("__call__", &PendingResult::synchronize, "synchronize(), as Horovod's sparse_allreduce.")
      .def("__reduce_ex__",
           [](const PendingResult&, const Anything& /*protocol*/) -> Anything {
             throw py::type_error(
                 "a Handle cannot be copied or pickled, since its call runs in this process; take "
                 "what synchronize() returns");
           })
      .def("_synchronize_on", &PendingResult::synchronize_on, py::arg("stream_of"),
           "synchronize() for the CUDA stream whose handle ``stream_of(device)`` gives; it is not "
           "called for results on the CPU.")
      .def("_then", &PendingResult::then, py::arg("finish"), py::arg("stream_of"),
           "A Handle that gives ``finish(result)``, for the stream of _synchronize_on().");
  m.def("poll", &PendingResult::poll, py::arg("handle"),
        "Whether synchronize(handle) would not block.\n\n"
        "Raises:\n"
        "    TypeError: ``handle`` is not a Handle.");
  m.def("synchronize", &PendingResult::synchronize, py::arg("handle"),
        "Wait for the result of ``handle``, a tensor or a list of them, of alltoall_async() a pair "
        "(tensor,\nreceived splits). May be called again.\n\n"
        "Raises:\n"
        "    TypeError: ``handle`` is not a Handle.\n"
        "    MismatchError: ranks disagreed; on every rank, and the job goes on.\n"
        "    HorovodInternalError: the job ended.");
}

}  // namespace

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
  define_handle(m);
  m.def(
      "_reduce_op", [](ReduceOpLike op) { return op.op; }, py::arg("op"),
      "The ReduceOp that an argument ``op`` means.");
  m.def(
      "_did_you_mean",
      [](const std::string& written, const std::vector<std::string>& names) {
        return did_you_mean(written, names);
      },
      py::arg("written"), py::arg("names"),
      "\"; did you mean NAME?\", or nothing if none of ``names`` is close to what was written.");
  bind_process_sets(m);
  bind_compression(m);
  bind_session(m);
  bind_reductions(m);
  bind_movement(m);
  bind_memory(m);
  bind_collective_table(m);
  bind_state(m);
  bind_optimizer(m);
  bind_whole_models(m);
  bind_observability(m);
}

}  // namespace hvd::python
