// Comparison and logic of tensors by operators, and how a tensor prints.
#include <pybind11/operators.h>

#include <string>

#include "bindings/native/bindings.h"
#include "bindings/native/integers.h"
#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/device.h"

namespace hvd::python {
namespace {

using Compare = Tensor (*)(const Tensor&, const Tensor&);
using CompareNumber = Tensor (*)(const Tensor&, double);

void def_compare(py::class_<Tensor>& cls, const char* name, Compare both, CompareNumber number) {
  cls.def(name, both, py::is_operator(), ReleaseGil());
  cls.def(
      name, [both](const Tensor& a, const py::array& b) { return both(a, wrap_array(b)); },
      py::is_operator());
  cls.def(name, with_int(both, number), py::is_operator());
  cls.def(name, number, py::is_operator(), ReleaseGil());
}

void require_bool(const Tensor& tensor, const char* name) {
  if (tensor.dtype() == DType::kBool) return;
  throw InvalidArgumentError(std::string(name) + ": takes bool tensors, not " +
                             std::string(name_of(tensor.dtype())));
}

void def_logic(py::class_<Tensor>& cls, const char* name, Compare function) {
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
  auto cls = py::reinterpret_borrow<py::class_<Tensor>>(m.attr("Tensor"));
  cls.def("__hash__", [](const Tensor& t) { return reinterpret_cast<std::intptr_t>(t.id()); });
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
