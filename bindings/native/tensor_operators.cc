// Comparison and logic of tensors by operators, and how a tensor prints.
#include <pybind11/operators.h>

#include <string>

#include "bindings/native/bindings.h"
#include "core/base/status.h"
#include "horovod_cpp/autograd/functions.h"

namespace hvd::python {
namespace {

using Compare = Tensor (*)(const Tensor&, const Tensor&);
using CompareNumber = Tensor (*)(const Tensor&, double);

void def_compare(py::class_<Tensor>& cls, const char* name, Compare both, CompareNumber number) {
  cls.def(name, both, py::is_operator(), ReleaseGil());
  cls.def(
      name, [both](const Tensor& a, const py::array& b) { return both(a, wrap_array(b)); },
      py::is_operator());
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

// As NumPy's, with what an array does not have.
std::string text_of(const Tensor& tensor) {
  const Tensor shown = tensor.detach();
  const py::module_ numpy = py::module_::import("numpy");
  const py::object array =
      tensor_to_numpy(shown.dtype() == DType::kBF16 ? shown.to(DType::kF32) : shown);
  const auto elements =
      numpy.attr("array2string")(array, py::arg("separator") = ", ", py::arg("prefix") = "tensor(")
          .cast<std::string>();
  std::string text = "tensor(" + elements;
  const bool whole = elements.find("...") == std::string::npos && tensor.numel() != 0;
  if (!whole) text += ", shape=" + py::str(py::cast(tensor).attr("shape")).cast<std::string>();
  text += ", dtype=" + std::string(name_of(tensor.dtype()));
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
  cls.def("__repr__", &text_of);
}

}  // namespace hvd::python
