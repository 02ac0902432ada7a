#include "bindings/native/numbers.h"

#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"

namespace hvd::python {
namespace {

// Why the tensor is no number, or nothing.
std::string refusal(const Tensor& tensor, bool whole) {
  if (!whole || tensor.dtype() == DType::kU8 || tensor.dtype() == DType::kI8 ||
      tensor.dtype() == DType::kU16 || tensor.dtype() == DType::kI16 ||
      tensor.dtype() == DType::kI32 || tensor.dtype() == DType::kI64) {
    return {};
  }
  return "an integer is expected, not a tensor of " + std::string(name_of(tensor.dtype()));
}

}  // namespace

py::object number_from(const py::handle& object, bool whole, bool last_try) {
  std::string wrong;
  if (py::isinstance<Tensor>(object)) {
    const auto& tensor = object.cast<const Tensor&>();
    if (grad_enabled() && tensor.requires_grad()) {
      if (!last_try) return {};
      throw InvalidArgumentError(
          "a tensor that requires grad is taken as a number here and would not receive a gradient; "
          "use .item() or detach()");
    }
    wrong = refusal(tensor, whole);
  } else if (whole && flag_from(object)) {
    wrong = "an integer is expected, not a bool";
  }
  if (!wrong.empty()) {
    if (!last_try) return {};
    throw py::type_error(wrong);
  }
  if (!whole) return py::reinterpret_borrow<py::object>(object);
  PyObject* const index = PyNumber_Index(object.ptr());
  if (index == nullptr) PyErr_Clear();
  return py::reinterpret_steal<py::object>(index);
}

std::optional<std::int64_t> int64_from(const py::handle& object) {
  if (PyIndex_Check(object.ptr()) == 0) return std::nullopt;
  const auto integer = py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr()));
  if (!integer) {  // a tensor of floats
    PyErr_Clear();
    return std::nullopt;
  }
  int overflow = 0;
  const long long whole = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
  return overflow == 0 ? std::optional<std::int64_t>(whole) : std::nullopt;
}

std::optional<bool> flag_from(const py::handle& object) {
  py::detail::make_caster<bool> plain;
  if (!plain.load(object, /*convert=*/false)) return std::nullopt;
  return py::detail::cast_op<bool>(plain);
}

}  // namespace hvd::python
