// Arithmetic, comparison and logic of tensors by operators, and how a tensor prints.
#include <pybind11/operators.h>

#include <functional>
#include <string>

#include "bindings/native/tensor/tensor.h"
#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/device.h"

namespace hvd::python {
namespace {

using OfTwo = Tensor (*)(const Tensor&, const Tensor&);
using OfNumber = Tensor (*)(const Tensor&, double);

// An operator of a tensor and an array or a number, also where it is reflected.
template <typename Both, typename WithNumber>
void def_mixed(TensorClass& cls, const std::string& name, Both both, WithNumber number) {
  cls.def(
      name.c_str(),
      [both](const Tensor& self, const py::array& other) {
        const Tensor wrapped = wrap_array(other);
        const WithoutGil nogil;
        return both(self, wrapped);
      },
      py::is_operator());
  cls.def(name.c_str(), number, py::is_operator(), ReleaseGil());
}

// The operator and its reflection. `keeps_integers`: of two integers it makes one.
template <typename Operation>
void def_arithmetic(TensorClass& cls, const std::string& name, OfTwo both, Operation operation,
                    bool keeps_integers = true) {
  const auto swapped = [both](const Tensor& right, const Tensor& left) {
    return both(left, right);
  };
  const auto number = [=](const Tensor& left, const Scalar& right) {
    return keeps_integers && right.exact_in(left.dtype()) ? both(left, right.tensor(left.dtype()))
                                                          : operation(left, right.value);
  };
  const auto reflected = [=](const Tensor& right, const Scalar& left) {
    return keeps_integers && left.exact_in(right.dtype()) ? both(left.tensor(right.dtype()), right)
                                                          : operation(left.value, right);
  };
  cls.def(("__" + name + "__").c_str(), both, py::is_operator(), ReleaseGil());
  def_mixed(cls, "__" + name + "__", both, number);
  def_mixed(cls, "__r" + name + "__", swapped, reflected);
}

void def_compare(TensorClass& cls, const char* name, OfTwo both, OfNumber number) {
  cls.def(name, both, py::is_operator(), ReleaseGil());
  def_mixed(cls, name, both, with_scalar(both, number));
}

void bind_arithmetic(TensorClass& cls) {
  def_arithmetic(cls, "add", &add, std::plus<>());
  def_arithmetic(cls, "sub", &sub, std::minus<>());
  def_arithmetic(cls, "mul", &mul, std::multiplies<>());
  def_arithmetic(cls, "truediv", &hvd::div, std::divides<>(), /*keeps_integers=*/false);
  cls.def("__neg__", &neg, ReleaseGil());
  cls.def("__pow__", OfTwo{&pow}, py::is_operator(), ReleaseGil());
  cls.def("__pow__", OfNumber{&pow}, py::is_operator(), ReleaseGil());
  cls.def(
      "__rpow__",
      [](const Tensor& exponent, Number base) {
        return pow(Tensor::full({}, base, exponent.dtype()), exponent);
      },
      py::is_operator(), ReleaseGil());
  cls.def("__pos__", [](const Typed<"Tensor">& t) { return t; });
  cls.def("__matmul__", &matmul, py::is_operator(), ReleaseGil());
  cls.def(
      "__matmul__", [](const Tensor& a, const py::array& b) { return matmul(a, wrap_array(b)); },
      py::is_operator());
  cls.def(
      "__rmatmul__", [](const Tensor& b, const py::array& a) { return matmul(wrap_array(a), b); },
      py::is_operator());
}

void require_bool(const Tensor& tensor, const char* name) {
  if (tensor.dtype() == DType::kBool) return;
  throw InvalidArgumentError(std::string(name) + ": takes bool tensors, not " +
                             std::string(name_of(tensor.dtype())));
}

void def_logic(TensorClass& cls, const char* name, OfTwo function) {
  cls.def(
      name,
      [=](const Tensor& a, const Tensor& b) {
        require_bool(a, name);
        require_bool(b, name);
        return function(a, b);
      },
      py::is_operator());
}

constexpr std::int64_t kWhole = 1000;  // elements of a tensor that is shown whole, as in PyTorch
constexpr std::int64_t kEdge = 3;      // of each axis of a larger one, at either end

// What is shown of a large tensor, with one more in the middle of each axis that is cut.
Tensor edges_of(Tensor tensor) {
  for (std::int64_t axis = 0; axis < tensor.dim(); ++axis) {
    const std::int64_t extent = tensor.size(axis);
    if (extent <= 2 * kEdge + 1) continue;
    tensor =
        cat({tensor.slice(axis, 0, kEdge + 1), tensor.slice(axis, extent - kEdge, extent)}, axis);
  }
  return tensor;
}

std::string repr(const Tensor& tensor) {
  const bool whole = tensor.numel() <= kWhole;
  Tensor shown = whole ? tensor.detach() : edges_of(tensor.detach());
  shown = shown.cpu();
  if (shown.dtype() == DType::kBF16) shown = shown.to(DType::kF32);
  const auto elements =
      py::module_::import("numpy")
          .attr("array2string")(tensor_to_numpy(shown), py::arg("separator") = ", ",
                                py::arg("prefix") = "tensor(", py::arg("precision") = 4,
                                py::arg("threshold") = whole ? kWhole : 0,
                                py::arg("edgeitems") = kEdge)
          .cast<std::string>();
  std::string text = "tensor(" + elements;
  if (!whole || tensor.numel() == 0) {
    text += ", shape=" + py::str(py::cast(tensor).attr("shape")).cast<std::string>();
  }
  text += ", dtype=" + std::string(name_of(tensor.dtype()));
  if (!is_on_cpu(tensor)) text += ", device='" + to_string(tensor.device()) + "'";
  if (tensor.requires_grad()) text += ", requires_grad=True";
  return text + ")";
}

}  // namespace

void bind_tensor_operators(py::module_& m) {
  auto cls = py::reinterpret_borrow<TensorClass>(m.attr("Tensor"));
  cls.def("__hash__", [](const Tensor& t) { return reinterpret_cast<std::intptr_t>(t.id()); });
  bind_arithmetic(cls);
  def_compare(cls, "__eq__", &eq, &eq);
  def_compare(cls, "__ne__", &ne, &ne);
  def_compare(cls, "__lt__", &lt, &lt);
  def_compare(cls, "__le__", &le, &le);
  def_compare(cls, "__gt__", &gt, &gt);
  def_compare(cls, "__ge__", &ge, &ge);
  def_logic(cls, "__and__", &logical_and);
  def_logic(cls, "__or__", &logical_or);
  def_logic(cls, "__xor__", &logical_xor);
  cls.def("__invert__", [](const Tensor& t) {
    require_bool(t, "__invert__");
    return logical_not(t);
  });
  cls.def("__abs__", &hvd::abs, ReleaseGil());
  cls.def("__repr__", &repr);
}

}  // namespace hvd::python
