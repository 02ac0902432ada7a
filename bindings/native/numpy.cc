#include <pybind11/numpy.h>

#include <vector>

#include "bindings/native/bindings.h"
#include "core/base/status.h"

namespace hvd::python {
namespace {

constexpr const char* kSupported =
    "bool, uint8, int8, uint16, int16, int32, int64, float16, float32, float64, complex64 and "
    "complex128 (bfloat16 has no NumPy dtype)";

std::string text_of(const py::handle& object) {
  return py::str(object).cast<std::string>();
}

std::string type_name(const py::handle& object) {
  return Py_TYPE(object.ptr())->tp_name;
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

DType dtype_of(const py::array& array) {
  const py::dtype dtype = array.dtype();
  if (dtype.attr("isnative").cast<bool>()) {
    for (const NumpyDType& known : kNumpyDTypes) {
      if (known.kind == dtype.kind() && known.bytes == dtype.itemsize()) return known.dtype;
    }
  }
  throw py::type_error("a tensor cannot hold NumPy's dtype " + text_of(dtype) + "; it holds " +
                       kSupported);
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
      throw InvalidArgumentError("axis " + std::to_string(axis) + " of the array has a stride of " +
                                 std::to_string(bytes) +
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
    throw py::type_error("a dtype is a name or a NumPy dtype, not " + type_name(object));
  }
  return parse_dtype(text_of(py::dtype::from_args(py::reinterpret_borrow<py::object>(object))));
}

Tensor wrap_array(const py::array& array) {
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
  std::vector<py::ssize_t> strides;
  const auto item = static_cast<py::ssize_t>(size_of(tensor.dtype()));
  for (const std::int64_t stride : tensor.strides()) strides.push_back(stride * item);
  return py::array(py::dtype(std::string(name_of(tensor.dtype()))), tensor.shape(), strides,
                   tensor.data(), py::cast(tensor));
}

Tensor tensor_from(const py::handle& object) {
  if (py::isinstance<Tensor>(object)) return object.cast<Tensor>();
  if (py::isinstance<py::array>(object)) {
    return wrap_array(py::reinterpret_borrow<py::array>(object));
  }
  throw py::type_error("expected a Tensor or a NumPy array, got " + type_name(object));
}

Tensor copy_to_tensor(const py::handle& object) {
  if (py::isinstance<Tensor>(object)) return object.cast<Tensor>().detach().clone();
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

py::dict to_dict(const NamedTensors& tensors) {
  py::dict dict;
  for (const auto& [name, tensor] : tensors) dict[py::str(name)] = tensor;
  return dict;
}

NamedTensors named_tensors_from(const py::handle& object) {
  NamedTensors tensors;
  const py::object items = py::isinstance<py::dict>(object)
                               ? object.attr("items")()
                               : py::reinterpret_borrow<py::object>(object);
  for (const py::handle& item : py::iter(items)) {
    if (!py::isinstance<py::tuple>(item) || py::len(item) != 2) {
      throw py::type_error("expected a dict or pairs (name, Tensor), got an item of type " +
                           type_name(item));
    }
    const auto pair = py::reinterpret_borrow<py::tuple>(item);
    if (!py::isinstance<py::str>(pair[0])) {
      throw py::type_error("a tensor's name must be a str, got " + type_name(pair[0]));
    }
    tensors.emplace_back(pair[0].cast<std::string>(), tensor_from(pair[1]));
  }
  return tensors;
}

}  // namespace hvd::python
