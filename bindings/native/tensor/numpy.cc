#include <pybind11/numpy.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings/native/bindings.h"
#include "bindings/native/tensor/dlpack.h"
#include "core/base/status.h"
#include "horovod_cpp/nn/module.h"
#include "horovod_cpp/tensor/device.h"

namespace hvd::python {
namespace {

constexpr const char* kSupported =
    "bool, uint8, int8, uint16, int16, int32, int64, float16, float32, float64, complex64 and "
    "complex128, and bfloat16 of the package ml_dtypes";

std::string text_of(const py::handle& object) {
  return py::str(object).cast<std::string>();
}

struct NumpyDType {
  char kind;
  py::ssize_t bytes;
  DType dtype;
};

constexpr NumpyDType kNumpyDTypes[] = {
    {'b', 1, DType::kBool}, {'u', 1, DType::kU8},  {'u', 2, DType::kU16}, {'i', 1, DType::kI8},
    {'i', 2, DType::kI16},  {'i', 4, DType::kI32}, {'i', 8, DType::kI64}, {'f', 2, DType::kF16},
    {'f', 4, DType::kF32},  {'f', 8, DType::kF64}, {'c', 8, DType::kC64}, {'c', 16, DType::kC128}};

// NumPy has none of its own; ml_dtypes registers one.
bool is_bfloat16(const py::dtype& dtype) {
  return dtype.kind() == 'V' && dtype.itemsize() == 2 &&
         dtype.attr("name").cast<std::string>() == "bfloat16";
}

DType dtype_of(const py::array& array) {
  const py::dtype dtype = array.dtype();
  if (!dtype.attr("isnative").cast<bool>()) {
    throw py::type_error(str_cat("a tensor cannot hold NumPy's dtype ",
                                 dtype.attr("str").cast<std::string>(),
                                 " of another byte order; pass "
                                 "array.astype(array.dtype.newbyteorder('='))"));
  }
  for (const NumpyDType& known : kNumpyDTypes) {
    if (known.kind == dtype.kind() && known.bytes == dtype.itemsize()) return known.dtype;
  }
  if (is_bfloat16(dtype)) return DType::kBF16;
  std::string advice;
  if (dtype.kind() == 'O') {
    advice =
        "; an array of objects becomes one of numbers by array.astype(\"float32\"), and objects "
        "travel by broadcast_object and allgather_object";
  }
  throw py::type_error(str_cat("a tensor cannot hold NumPy's dtype ", text_of(dtype), "; it holds ",
                               kSupported, advice));
}

// Of a complex number that of its parts.
std::size_t alignment_of(DType dtype) {
  return is_complex(dtype) ? size_of(dtype) / 2 : size_of(dtype);
}

std::vector<std::int64_t> element_strides(const py::array& array) {
  std::vector<std::int64_t> strides;
  const auto item = array.itemsize();
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) {
    const auto bytes = array.strides(axis);
    if (bytes < 0 || bytes % item != 0) {
      throw InvalidArgumentError("axis ", axis, " of the array has a stride of ", bytes,
                                 " bytes, which a tensor cannot have; pass array.copy()");
    }
    strides.push_back(bytes / item);
  }
  return strides;
}

}  // namespace

DType dtype_from(const py::handle& object) {
  if (py::isinstance<py::str>(object)) return parse_dtype(object.cast<std::string>());
  if (object.is_none() || PyLong_Check(object.ptr()) || PyFloat_Check(object.ptr())) {
    throw py::type_error(str_cat("a dtype is a name or a NumPy dtype, not ", type_name(object)));
  }
  return parse_dtype(text_of(py::dtype::from_args(py::reinterpret_borrow<py::object>(object))));
}

void refuse_mask(const py::handle& array) {
  const bool plain = Py_TYPE(array.ptr()) == py::detail::npy_api::get().PyArray_Type_;
  if (plain || !py::hasattr(array, "mask")) return;
  throw InvalidArgumentError(
      "the array is masked, a tensor is not; pass array.filled(value), or array.data for all");
}

Tensor wrap_array(const py::array& array) {
  refuse_mask(array);
  const DType dtype = dtype_of(array);
  Shape shape(array.shape(), array.shape() + array.ndim());
  std::vector<std::int64_t> strides = element_strides(array);
  void* data = const_cast<void*>(array.data());
  if (reinterpret_cast<std::uintptr_t>(data) % alignment_of(dtype) != 0) {
    throw InvalidArgumentError(
        "the array's memory is not aligned to its elements; pass array.copy()");
  }
  return Tensor::wrap(data, std::move(shape), dtype, keep_alive(array), std::move(strides));
}

Tensor tensor_from_numpy(const py::array& array) {
  if (!array.writeable()) {
    throw InvalidArgumentError("the array is read-only, a tensor is not; pass array.copy()");
  }
  return wrap_array(array);
}

py::array tensor_to_numpy(const Tensor& tensor) {
  if (tensor.dtype() == DType::kBF16) {
    throw py::type_error("NumPy has no bfloat16; convert first: tensor.to(\"float32\").numpy()");
  }
  return tensor_to_numpy(tensor, py::dtype(std::string(name_of(tensor.dtype()))));
}

py::array tensor_to_numpy(const Tensor& tensor, const py::object& dtype) {
  require_cpu("numpy", {&tensor});
  std::vector<py::ssize_t> strides;
  const auto item = static_cast<py::ssize_t>(size_of(tensor.dtype()));
  for (const std::int64_t stride : tensor.strides()) strides.push_back(stride * item);
  return py::array(py::reinterpret_borrow<py::dtype>(dtype), tensor.shape(), strides, tensor.data(),
                   py::cast(tensor));
}

namespace {

[[noreturn]] void throw_no_array(const py::handle& object) {
  throw py::type_error(str_cat(
      "expected a Tensor, a NumPy array or an array with __dlpack__ (PyTorch, JAX, CuPy), got ",
      type_name(object)));
}

// Whether two elements may share memory: always where they do, and where axes interleave.
bool overlaps(const Tensor& tensor) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, extent
  for (std::size_t i = 0; i < tensor.shape().size(); ++i) {
    if (tensor.shape()[i] == 0) return false;
    if (tensor.shape()[i] > 1) axes.emplace_back(tensor.strides()[i], tensor.shape()[i]);
  }
  std::sort(axes.begin(), axes.end());
  std::int64_t reach = 0;  // of the axes so far
  for (const auto& [stride, extent] : axes) {
    if (stride <= reach) return true;
    reach += stride * (extent - 1);
  }
  return false;
}

}  // namespace

Tensor tensor_from(const py::handle& object) {
  if (py::isinstance<Tensor>(object)) return object.cast<Tensor>();
  if (py::isinstance<py::array>(object)) {
    return wrap_array(py::reinterpret_borrow<py::array>(object));
  }
  if (speaks_dlpack(object)) return tensor_from_dlpack(object, Access::kRead);
  throw_no_array(object);
}

Tensor writable_tensor_from(const py::handle& object) {
  if (py::isinstance<Tensor>(object)) return object.cast<Tensor>();
  const bool is_array = py::isinstance<py::array>(object);
  if (!is_array && !speaks_dlpack(object)) throw_no_array(object);
  Tensor tensor = is_array ? tensor_from_numpy(py::reinterpret_borrow<py::array>(object))
                           : tensor_from_dlpack(object, Access::kWrite);
  // Nothing tells on which stream the owner will read what is written.
  if (tensor.device().kind != DeviceKind::kCpu) tensor.set_in_stream_order(false);
  if (overlaps(tensor)) {
    throw InvalidArgumentError(
        "an in-place call cannot write this ", type_name(object), " of shape ", tensor.shape(),
        ": its elements share memory, as those of an expanded array do; pass "
        "a contiguous copy");
  }
  return tensor;
}

Tensor copy_to_tensor(const py::handle& object) {
  if (py::isinstance<Tensor>(object)) return object.cast<Tensor>().detach().clone();
  if (!py::isinstance<py::array>(object) && speaks_dlpack(object)) {
    return tensor_from_dlpack(object, Access::kRead).clone();
  }
  refuse_mask(object);
  const bool typed = py::hasattr(object, "dtype");
  auto array =
      py::array(py::module_::import("numpy").attr("array")(object, py::arg("order") = "C"));
  const Tensor tensor = wrap_array(array);
  // Python's floats carry no dtype; float32 is what models are made of, complex64 what goes with
  // it.
  if (!typed && tensor.dtype() == DType::kF64) return tensor.to(DType::kF32);
  if (!typed && tensor.dtype() == DType::kC128) return tensor.to(DType::kC64);
  return tensor.clone();
}

TensorDict to_dict(const NamedTensors& tensors) {
  TensorDict dict;
  for (const auto& [name, tensor] : tensors) dict[py::str(name)] = tensor;
  return dict;
}

NamedTensors named_tensors_from(const py::handle& object, Tensor (*convert)(const py::handle&)) {
  const auto refuse = [&](const std::string& what) -> py::type_error {
    return py::type_error(
        "expected a dict or pairs (name, Tensor), such as "
        "model.named_parameters() or model.state_dict(), got " +
        what);
  };
  // A Sequential can be iterated too, but gives modules.
  if (py::isinstance<nn::Module>(object) || !py::isinstance<py::iterable>(object)) {
    throw refuse(type_name(object));
  }
  NamedTensors tensors;
  const py::object items = py::isinstance<py::dict>(object)
                               ? object.attr("items")()
                               : py::reinterpret_borrow<py::object>(object);
  for (const py::handle& item : py::iter(items)) {
    if (!py::isinstance<py::tuple>(item) || py::len(item) != 2) {
      throw refuse(str_cat("an item of type ", type_name(item)));
    }
    const auto pair = py::reinterpret_borrow<py::tuple>(item);
    if (!py::isinstance<py::str>(pair[0])) {
      throw py::type_error(str_cat("a tensor's name must be a str, got ", type_name(pair[0])));
    }
    tensors.emplace_back(pair[0].cast<std::string>(), convert(pair[1]));
  }
  return tensors;
}

}  // namespace hvd::python
