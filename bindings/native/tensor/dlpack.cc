// Arrays of other libraries as tensors, and tensors for other libraries.
#include "bindings/native/tensor/dlpack.h"

#include <pybind11/stl.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/native/docs.h"
#include "bindings/native/numbers.h"
#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/collectives/gpu_tensors.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/session/session.h"

namespace hvd::python {
namespace {

using namespace dlpack;

constexpr const char* kKeeperName = "horovod_cpp.dlpack";

struct KnownType {
  DLDataTypeCode code;
  std::uint8_t bits;
  DType dtype;
};

constexpr KnownType kKnownTypes[] = {
    {kDLBool, 8, DType::kBool},     {kDLUInt, 8, DType::kU8},    {kDLUInt, 16, DType::kU16},
    {kDLInt, 8, DType::kI8},        {kDLInt, 16, DType::kI16},   {kDLInt, 32, DType::kI32},
    {kDLInt, 64, DType::kI64},      {kDLFloat, 16, DType::kF16}, {kDLBfloat, 16, DType::kBF16},
    {kDLFloat, 32, DType::kF32},    {kDLFloat, 64, DType::kF64}, {kDLComplex, 64, DType::kC64},
    {kDLComplex, 128, DType::kC128}};

std::string dl_type_name(const DLDataType& type) {
  constexpr std::array kNames = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  std::string text = type.code < kNames.size() ? kNames[type.code]
                                               : "type code " + std::to_string(type.code) + ", ";
  text += std::to_string(type.bits);
  if (type.lanes != 1) text += " x " + std::to_string(type.lanes) + " lanes";
  return text;
}

DType dtype_of(const DLDataType& type, const std::string& owner) {
  for (const KnownType& known : kKnownTypes) {
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1) return known.dtype;
  }
  throw py::type_error(
      str_cat("a tensor cannot hold the dtype of this ", owner, " (", dl_type_name(type),
              "); it holds bool, uint8, int8, uint16, int16, int32, int64, float16, "
              "bfloat16, float32, float64, complex64 and complex128"));
}

bool is_host(std::int32_t device) {
  return device == kDLCPU || device == kDLCUDAHost || device == kDLROCMHost;
}

std::string dl_device_name(const DLDevice& device) {
  switch (device.device_type) {
    case kDLCUDA:
      return "CUDA device " + std::to_string(device.device_id);
    case kDLCUDAManaged:
      return "CUDA's managed memory";
    case kDLMetal:
      return "a Metal device";
    default:
      return device.device_type == kDLROCM ? "a ROCm device" : "a device";
  }
}

[[noreturn]] void throw_device(const DLDevice& device, const std::string& owner) {
  throw UnsupportedError("this ", owner, " lies in the memory of ", dl_device_name(device),
                         " (DLPack type ", device.device_type,
                         "); taken is memory of the CPU, and by collectives that of the rank's "
                         "CUDA device (HVD_GPU_OPERATIONS): copy it, as x.cpu() does in PyTorch");
}

// A capsule's content, checked but not taken.
struct Offered {
  const DLTensor* tensor;
  std::uint64_t flags;
  std::optional<DLPackVersion> version;
};

Offered look_into(const py::handle& capsule, const std::string& owner) {
  if (PyCapsule_CheckExact(capsule.ptr()) == 0) {
    throw py::type_error(
        str_cat("__dlpack__ of ", owner, " returned no capsule but ", type_name(capsule)));
  }
  if (PyCapsule_IsValid(capsule.ptr(), kPlainName) != 0) {
    const auto* managed =
        static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kPlainName));
    return {&managed->dl_tensor, 0, std::nullopt};
  }
  if (PyCapsule_IsValid(capsule.ptr(), kVersionedName) != 0) {
    const auto* managed =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersionedName));
    if (managed->version.major != kMajorVersion) {  // the layout after it may be another
      throw py::buffer_error(str_cat("the capsule of ", owner, " is of DLPack ",
                                     managed->version.major, ".", managed->version.minor,
                                     "; this build reads 1.x"));
    }
    return {&managed->dl_tensor, managed->flags, managed->version};
  }
  const char* name = PyCapsule_GetName(capsule.ptr());
  PyErr_Clear();
  throw py::buffer_error(
      str_cat("the capsule of ", owner, " is named '", (name == nullptr ? "" : name),
              "': it holds no tensor, or was used before; each capsule is for one use"));
}

// Calls the deleter when it goes; to be dropped with the GIL.
template <typename Managed>
py::object keeper_of(Managed* managed) {
  PyObject* keeper = PyCapsule_New(managed, kKeeperName, [](PyObject* capsule) {
    const py::error_scope keep_pythons_error;
    auto* held = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kKeeperName));
    if (held->deleter != nullptr) held->deleter(held);
  });
  if (keeper == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(keeper);
}

// From here on the tensor is ours.
py::object take(const py::handle& capsule, const Offered& offered) {
  const char* name = offered.version ? kVersionedName : kPlainName;
  void* content = PyCapsule_GetPointer(capsule.ptr(), name);
  py::object keeper = offered.version ? keeper_of(static_cast<DLManagedTensorVersioned*>(content))
                                      : keeper_of(static_cast<DLManagedTensor*>(content));
  PyCapsule_SetName(capsule.ptr(), offered.version ? "used_dltensor_versioned" : "used_dltensor");
  return keeper;
}

struct Layout {
  std::byte* data;
  Shape shape;
  std::vector<std::int64_t> strides;   // none negative
  std::vector<std::int64_t> reversed;  // axes whose strides were
};

Layout layout_of(const DLTensor& tensor, DType dtype, const std::string& owner) {
  constexpr int kMaxAxes = 64;
  if (tensor.ndim < 0 || tensor.ndim > kMaxAxes || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    throw py::buffer_error(
        str_cat("the capsule of ", owner, " is broken: it has ", tensor.ndim, " axes"));
  }
  Layout layout{static_cast<std::byte*>(tensor.data), {}, {}, {}};
  if (tensor.ndim > 0) layout.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  const std::int64_t numel = numel_of(layout.shape);
  if (layout.data == nullptr && numel != 0) {
    throw py::buffer_error(
        str_cat("the capsule of ", owner, " has no memory for shape ", layout.shape));
  }
  if (layout.data != nullptr) layout.data += tensor.byte_offset;
  if (numel == 0 || tensor.strides == nullptr) return layout;
  layout.strides.assign(tensor.strides, tensor.strides + tensor.ndim);
  const auto item = static_cast<std::int64_t>(size_of(dtype));
  for (std::size_t axis = 0; axis < layout.shape.size(); ++axis) {
    std::int64_t& stride = layout.strides[axis];
    if (stride >= 0) continue;
    layout.data += stride * (layout.shape[axis] - 1) * item;
    stride = -stride;
    layout.reversed.push_back(static_cast<std::int64_t>(axis));
  }
  return layout;
}

void check_writable(const Offered& offered, const std::string& owner) {
  if ((offered.flags & kReadOnlyFlag) != 0) {
    throw InvalidArgumentError("this ", owner,
                               " is read-only; write into a copy, or use the call that returns a "
                               "new array");
  }
  if ((offered.flags & kIsCopiedFlag) != 0) {
    throw InvalidArgumentError("this ", owner,
                               " gives a copy of its memory only; use the call that returns a new "
                               "array");
  }
}

void check_forwards(const Layout& layout, const std::string& owner) {
  if (layout.reversed.empty()) return;
  throw InvalidArgumentError("axis ", layout.reversed.front(), " of this ", owner,
                             " runs backwards in memory; pass a contiguous copy");
}

// Where an object said that its memory is: of the CPU, or of the CUDA device that serves this rank,
// where its producer made the engine's stream wait for it.
struct Home {
  Device device;
  std::uintptr_t stream = 0;
};

Tensor import_capsule(const py::handle& capsule, const std::string& owner, Access access,
                      const Home& home = {}) {
  const Offered offered = look_into(capsule, owner);
  const DLTensor& given = *offered.tensor;
  const bool at_home =
      home.device.kind == DeviceKind::kCpu
          ? is_host(given.device.device_type)
          : given.device.device_type == kDLCUDA && given.device.device_id == home.device.index;
  if (!at_home) throw_device(given.device, owner);
  const DType dtype = dtype_of(given.dtype, owner);
  Layout layout = layout_of(given, dtype, owner);
  const std::size_t part = is_complex(dtype) ? size_of(dtype) / 2 : size_of(dtype);
  if (reinterpret_cast<std::uintptr_t>(layout.data) % part != 0) {
    throw InvalidArgumentError("the memory of this ", owner,
                               " is not aligned to its elements; pass a copy");
  }
  const bool writes = access == Access::kWrite;
  if (writes) check_writable(offered, owner);
  if (writes || home.device.kind == DeviceKind::kCuda) check_forwards(layout, owner);
  Tensor tensor =
      Tensor::wrap_on(home.device, home.stream, layout.data, std::move(layout.shape), dtype,
                      keep_alive(take(capsule, offered)), std::move(layout.strides));
  return layout.reversed.empty() ? tensor : flip(tensor, layout.reversed);
}

// Throws unless it is served.
Home home_of(const py::handle& object, const std::string& owner) {
  const py::object place = object.attr("__dlpack_device__")();
  py::detail::make_caster<std::pair<std::int32_t, std::int32_t>> numbers;
  if (!py::isinstance<py::tuple>(place) || !numbers.load(place, true)) {
    throw py::type_error(str_cat("__dlpack_device__ of ", owner,
                                 " returned no pair of numbers but ",
                                 py::repr(place).cast<std::string>()));
  }
  const auto [type, index] = py::detail::cast_op<std::pair<std::int32_t, std::int32_t>>(numbers);
  const DLDevice device = {type, index};
  if (is_host(device.device_type)) return {};
  if (device.device_type != kDLCUDA || !is_initialized()) throw_device(device, owner);
  const auto job = world();
  const Device home = {DeviceKind::kCuda, device.device_id};
  expect_served(*job, home, "this " + owner);
  return {home, import_stream(*job)};
}

// Libraries from before DLPack 1.0 know the argument stream alone.
py::object export_of(const py::object& object, Access access, const Home& home) {
  const py::object method = object.attr("__dlpack__");
  py::dict known;
  if (home.device.kind == DeviceKind::kCuda) known["stream"] = home.stream;
  py::dict arguments(known.attr("copy")());
  arguments["max_version"] = py::make_tuple(kMajorVersion, kMinorVersion);
  if (access == Access::kWrite) arguments["copy"] = false;
  try {
    return method(**arguments);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method(**known);
}

bool is_bool(const py::handle& object) {
  const auto name = py::str(py::getattr(object, "dtype", py::str(""))).cast<std::string>();
  return name == "bool" || name.ends_with(".bool");
}

// The same memory as another one-byte dtype.
Tensor retyped(const Tensor& tensor, DType dtype) {
  return Tensor::wrap_on(tensor.device(), tensor.stream(), tensor.address(), tensor.shape(), dtype,
                         std::make_shared<const Tensor>(tensor), tensor.strides());
}

// PyTorch before 2.2 exports no bools; their bytes it does.
std::optional<Tensor> bools_by_bytes(const py::object& object, Access access, const Home& home) {
  const py::object library = library_of(object);
  if (!is_bool(object) || !py::hasattr(object, "view") || !py::hasattr(library, "uint8")) {
    return std::nullopt;
  }
  const py::object bytes = object.attr("view")(library.attr("uint8"));
  const py::object capsule = export_of(bytes, access, home);
  return retyped(import_capsule(capsule, type_name(object), access, home), DType::kBool);
}

// Its values without the graph. What Horovod does: collectives read and write the memory.
py::object detached(const py::handle& object) {
  auto given = py::reinterpret_borrow<py::object>(object);
  const py::object requires_grad = py::getattr(object, "requires_grad", py::bool_(false));
  if (!py::isinstance<py::bool_>(requires_grad) || !requires_grad.cast<bool>()) return given;
  if (!py::hasattr(object, "detach")) {
    throw InvalidArgumentError("this ", type_name(object),
                               " requires grad and has no detach(); pass an array of its values");
  }
  return given.attr("detach")();
}

DLDataType type_of(DType dtype) {
  for (const KnownType& known : kKnownTypes) {
    if (known.dtype == dtype) return {known.code, known.bits, 1};
  }
  throw py::buffer_error(str_cat("no DLPack type for ", dtype));
}

}  // namespace

std::string type_name(const py::handle& object) {
  const py::handle type = py::type::handle_of(object);
  const auto name = py::str(type.attr("__qualname__")).cast<std::string>();
  const auto module = py::str(type.attr("__module__")).cast<std::string>();
  return module == "builtins" ? name : module + "." + name;
}

bool speaks_dlpack(const py::handle& object) {
  return !PyType_Check(object.ptr()) && py::hasattr(object, "__dlpack__") &&
         py::hasattr(object, "__dlpack_device__");
}

Tensor tensor_from_dlpack(const py::handle& object, Access access) {
  const std::string owner = type_name(object);
  if (access == Access::kWrite && owner.starts_with("jax")) {  // its capsules do not say so
    throw InvalidArgumentError("this ", owner,
                               " is read-only, as JAX's arrays never change; use the call that "
                               "returns a new array");
  }
  const py::object values = detached(object);
  const Home home = home_of(values, owner);
  try {
    return import_capsule(export_of(values, access, home), owner, access, home);
  } catch (py::error_already_set&) {
    if (const auto bools = bools_by_bytes(values, access, home)) return *bools;
    throw;
  }
}

py::object to_library(const Tensor& tensor, const py::object& library) {
  const py::object from_dlpack = library.attr("from_dlpack");
  if (tensor.dtype() != DType::kBool) return from_dlpack(py::cast(tensor));
  try {
    return from_dlpack(py::cast(tensor));
  } catch (py::error_already_set&) {
    if (!py::hasattr(library, "bool")) throw;
    return from_dlpack(py::cast(retyped(tensor, DType::kU8))).attr("view")(library.attr("bool"));
  }
}

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

namespace {

// -- a tensor's memory for other libraries

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
constexpr const char* kNameOf =
    std::is_same_v<Managed, DLManagedTensorVersioned> ? kVersionedName : kPlainName;

template <typename Managed>
void delete_unused(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kNameOf<Managed>) == 0) return;  // a consumer has it
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kNameOf<Managed>));
  managed->deleter(managed);
}

DLDevice device_of(const Tensor& tensor) {
  const Device device = tensor.device();
  return device.kind == DeviceKind::kCpu ? DLDevice{kDLCPU, 0} : DLDevice{kDLCUDA, device.index};
}

template <typename Managed>
py::object capsule_of(const Tensor& tensor, std::uint64_t flags, std::uintptr_t consumer) {
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
  PyObject* capsule = PyCapsule_New(&managed, kNameOf<Managed>, &delete_unused<Managed>);
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
    throw py::buffer_error("a CPU tensor has no stream; stream must be None");
  }
  constexpr std::int64_t kLegacyDefault = 1;
  constexpr std::int64_t kNoWaiting = -1;
  const std::int64_t consumer = stream.value_or(kLegacyDefault);
  if (consumer == 0 || consumer < kNoWaiting) {
    throw py::buffer_error(
        str_cat("stream ", consumer,
                " is none of CUDA's: expected None, -1, 1 (the legacy default), 2 (the "
                "thread's default) or a stream's handle"));
  }
  if (consumer != kNoWaiting) hand_over(tensor, static_cast<std::uintptr_t>(consumer));
  return static_cast<std::uintptr_t>(consumer);  // some stream, then
}

Anything to_dlpack(const Tensor& tensor, std::optional<std::int64_t> stream,
                   const MaybeVersion& max_version, const MaybeDLDevice& device,
                   std::optional<Flag<"copy">> copy) {
  const DLDevice place = device_of(tensor);
  if (device && *device != std::pair{place.device_type, place.device_id}) {
    throw py::buffer_error(str_cat("this tensor exports to dl_device (", place.device_type, ", ",
                                   place.device_id, ") only"));
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
    return capsule_of<DLManagedTensor>(values, 0, consumer);
  }
  return capsule_of<DLManagedTensorVersioned>(values, copied ? kIsCopiedFlag : 0, consumer);
}

Tensor from_dlpack(const Anything& x, const Typed<"str | None">& device,
                   std::optional<Flag<"copy">> copy) {
  if (!device.is_none() && py::str(device).cast<std::string>() != "cpu") {
    throw UnsupportedError(
        "from_dlpack: tensors live in the memory of the CPU, not "
        "on device ",
        py::str(device).cast<std::string>());
  }
  const bool is_capsule = PyCapsule_CheckExact(x.ptr()) != 0;
  if (!is_capsule && !speaks_dlpack(x)) {
    throw py::type_error(str_cat(
        "from_dlpack: takes objects with __dlpack__ and __dlpack_device__, not ", type_name(x)));
  }
  const bool copies = copy && *copy;
  const Access access = copies ? Access::kRead : Access::kWrite;
  try {
    const Tensor tensor =
        is_capsule ? import_capsule(x, "capsule", access) : tensor_from_dlpack(x, access);
    if (const Device place = tensor.device(); place.kind != DeviceKind::kCpu) {
      throw_device({kDLCUDA, place.index}, is_capsule ? "capsule" : type_name(x));
    }
    return copies ? tensor.clone() : tensor;
  } catch (const InvalidArgumentError& error) {
    throw py::buffer_error(str_cat(error.what(), " (from_dlpack(x, copy=True) makes one)"));
  }
}

}  // namespace

void bind_dlpack(py::module_& m) {
  auto cls = py::reinterpret_borrow<py::class_<Tensor>>(m.attr("Tensor"));
  define(
      cls, "__dlpack__", &to_dlpack,
      "A capsule of the tensor's memory for another library's ``from_dlpack``.", py::kw_only(),
      Arg("stream",
          "of a tensor of a CUDA device the consumer's stream, which will wait for it: a handle, "
          "1\n        or None = the legacy default stream, 2 = the thread's, -1 = no wait; "
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
  m.def("from_dlpack", &from_dlpack, py::arg("x"), py::kw_only(), py::arg("device") = py::none(),
        py::arg("copy") = py::none(),
        R"(A tensor over the memory of another library's array; both see each other's writes.

Args:
    x: an object with ``__dlpack__`` (PyTorch, JAX, CuPy, NumPy) or a capsule of it. What requires
        grad is detached.
    device: None or "cpu".
    copy: True: a tensor with memory of its own; False: never a copy, as None.

Returns:
    A Tensor of the array's shape.

Raises:
    UnsupportedError: the memory is not the CPU's.
    BufferError: the memory is read-only or runs backwards (pass ``copy=True``), or the capsule holds
        no tensor or was used.
    TypeError: ``x`` has no ``__dlpack__``, or a dtype that a tensor cannot have.)");
}

}  // namespace hvd::python
