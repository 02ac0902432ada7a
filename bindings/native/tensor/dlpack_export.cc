// A tensor's memory for other libraries.
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/native/docs.h"
#include "bindings/native/numbers.h"
#include "bindings/native/tensor/dlpack.h"
#include "horovod_cpp/distributed/collectives/gpu_tensors.h"
#include "horovod_cpp/distributed/session/session.h"

namespace hvd::python {

using namespace dlpack;

namespace {

// What a capsule of ours holds: the tensor, and the numbers that the consumer reads.
template <typename Managed>
struct Exported {
  Managed managed;
  Tensor tensor;
  Shape shape;
  std::vector<std::int64_t> strides;
  std::uintptr_t consumer;  // the stream on which it works with a tensor of a GPU
};

// Any thread may call it: a tensor whose memory is Python's gives it back with the GIL.
template <typename Managed>
void delete_exported(Managed* managed) {
  auto* exported = static_cast<Exported<Managed>*>(managed->manager_ctx);
  if (exported->tensor.device().kind != DeviceKind::kCpu) {
    take_back(exported->tensor, exported->consumer);
  }
  delete exported;
}

template <typename Managed>
void delete_unused(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;  // a consumer has it
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

DLDevice device_of(const Tensor& tensor) {
  const Device device = tensor.device();
  return device.kind == DeviceKind::kCpu ? DLDevice{kDLCPU, 0} : DLDevice{kDLCUDA, device.index};
}

template <typename Managed>
py::object capsule_of(const Tensor& tensor, const char* name, PyCapsule_Destructor destructor,
                      std::uint64_t flags, std::uintptr_t consumer) {
  auto exported = std::make_unique<Exported<Managed>>(
      Exported<Managed>{{}, tensor, tensor.shape(), tensor.strides(), consumer});
  Managed& managed = exported->managed;
  managed.manager_ctx = exported.get();
  managed.deleter = &delete_exported<Managed>;
  managed.dl_tensor = {tensor.address(),
                       device_of(tensor),
                       static_cast<std::int32_t>(tensor.dim()),
                       type_of(tensor.dtype()),
                       exported->shape.data(),
                       exported->strides.data(),
                       0};
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
    managed.version = {kMajorVersion, kMinorVersion};
    managed.flags = flags;
  }
  PyObject* capsule = PyCapsule_New(&managed, name, destructor);
  if (capsule == nullptr) throw py::error_already_set();
  static_cast<void>(exported.release());  // the capsule's, and then the consumer's
  return py::reinterpret_steal<py::object>(capsule);
}

using MaybeVersion = std::optional<std::pair<std::uint32_t, std::uint32_t>>;
using MaybeDLDevice = std::optional<std::pair<std::int32_t, std::int32_t>>;

// Makes the consumer's stream, which it returns, wait for what is under way in the tensor. The
// numbers are those of the standard of Python's arrays: None is the legacy default stream, -1 asks
// for no waiting.
std::uintptr_t order(const Tensor& tensor, std::optional<std::int64_t> stream) {
  if (tensor.device().kind == DeviceKind::kCpu) {
    if (!stream) return 0;
    throw py::buffer_error("a tensor of the CPU has no stream; stream must be None");
  }
  constexpr std::int64_t kLegacyDefault = 1;
  constexpr std::int64_t kNoWaiting = -1;
  const std::int64_t consumer = stream.value_or(kLegacyDefault);
  if (consumer == 0 || consumer < kNoWaiting) {
    throw py::buffer_error("stream " + std::to_string(consumer) +
                           " is none of CUDA's: expected None, -1, 1 (the legacy default), 2 (the "
                           "thread's default) or a stream's handle");
  }
  if (consumer != kNoWaiting) hand_over(tensor, static_cast<std::uintptr_t>(consumer));
  return static_cast<std::uintptr_t>(consumer);  // some stream, then
}

Anything to_dlpack(const Tensor& tensor, std::optional<std::int64_t> stream,
                   const MaybeVersion& max_version, const MaybeDLDevice& device,
                   std::optional<Flag<"copy">> copy) {
  const DLDevice place = device_of(tensor);
  if (device && *device != std::pair{place.device_type, place.device_id}) {
    throw py::buffer_error("this tensor exports to dl_device (" +
                           std::to_string(place.device_type) + ", " +
                           std::to_string(place.device_id) + ") only");
  }
  if (tensor.requires_grad()) {
    throw py::buffer_error(
        "a tensor that requires grad is not exported, as nothing that others do with it is "
        "recorded; export tensor.detach()");
  }
  const bool copied = copy && *copy;
  const Tensor values = copied ? tensor.clone() : tensor;
  const std::uintptr_t consumer = order(values, stream);
  if (!max_version || max_version->first < kMajorVersion) {
    return capsule_of<DLManagedTensor>(
        values, kPlainName,
        [](PyObject* capsule) { delete_unused<DLManagedTensor>(capsule, kPlainName); }, 0,
        consumer);
  }
  return capsule_of<DLManagedTensorVersioned>(
      values, kVersionedName,
      [](PyObject* capsule) { delete_unused<DLManagedTensorVersioned>(capsule, kVersionedName); },
      copied ? kIsCopiedFlag : 0, consumer);
}

}  // namespace

py::object library_of(const py::handle& object) {
  if (py::hasattr(object, "__array_namespace__")) {
    py::object space = object.attr("__array_namespace__")();
    if (py::hasattr(space, "from_dlpack")) return space;
  }
  const auto loaded = py::module_::import("sys").attr("modules");
  for (const py::handle& cls : py::type::of(object).attr("__mro__")) {
    const py::object name = cls.attr("__module__");
    if (!py::isinstance<py::str>(name)) continue;
    py::object library = loaded.attr("get")(name.attr("partition")(".")[py::int_(0)]);
    if (py::hasattr(library, "from_dlpack")) return library;
  }
  return py::none();
}

void bind_dlpack(py::module_& m) {
  auto cls = py::reinterpret_borrow<py::class_<Tensor>>(m.attr("Tensor"));
  define(
      cls, "__dlpack__", &to_dlpack,
      "A capsule of the tensor's memory for another library's ``from_dlpack``.", py::kw_only(),
      Arg("stream",
          "of a tensor of a CUDA device the consumer's stream, which will wait for it: a handle, "
          "1\n        or None = the legacy default stream, 2 = the thread's, -1 = nobody waits; "
          "None on a CPU.") = py::none(),
      Arg("max_version", "from (1, 0) on the capsule is a versioned one (DLPack 1.1).") =
          py::none(),
      Arg("dl_device", "None or what ``__dlpack_device__()`` says.") = py::none(),
      Arg("copy", "True: of a copy.") = py::none(),
      Returns{"The capsule; it keeps the memory alive."},
      Raises{"BufferError: the tensor requires grad, or it has no such ``stream`` or "
             "``dl_device``."});
  cls.def(
      "__dlpack_device__",
      [](const Tensor& tensor) {
        const DLDevice place = device_of(tensor);
        return std::pair<int, int>(place.device_type, place.device_id);
      },
      "(1, 0), the memory of the CPU, or (2, number), that of a CUDA device.");
  bind_dlpack_import(m);
}

}  // namespace hvd::python
