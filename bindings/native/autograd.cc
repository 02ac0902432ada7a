#include "horovod_cpp/autograd/functions.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <vector>

#include "bindings/native/bindings.h"
#include "horovod_cpp/autograd/autocast.h"
#include "horovod_cpp/autograd/grad_mode.h"

namespace hvd::python {
namespace {

using MaybeTensor = std::optional<Tensor>;

std::function<void()> add_hook(const Tensor& tensor, const py::function& hook) {
  return tensor.register_hook([owner = keep_alive(hook)](const Tensor& leaf) {
    const py::gil_scoped_acquire gil;
    auto* object = static_cast<PyObject*>(const_cast<void*>(owner.get()));
    const py::object result = py::reinterpret_borrow<py::function>(object)(leaf);
    if (result.is_none()) return;
    throw py::type_error(std::string("register_hook: a hook is called with the leaf and returns "
                                     "None, not ") +
                         Py_TYPE(result.ptr())->tp_name + "; it may change leaf.grad");
  });
}

void bind_gradients(py::module_& m) {
  auto cls = py::reinterpret_borrow<py::class_<Tensor>>(m.attr("Tensor"));
  cls.def_property(
      "requires_grad", &Tensor::requires_grad,
      [](Tensor& t, bool value) { t.requires_grad_(value); },
      "Whether backward() leaves a gradient here. May be set on leaves of a floating dtype.");
  cls.def("requires_grad_", &Tensor::requires_grad_, py::return_value_policy::reference_internal,
          py::arg("value") = true, "Sets ``requires_grad`` and returns the tensor.");
  cls.def_property_readonly("is_leaf", &Tensor::is_leaf,
                            "Whether no recorded operation produced this tensor.");
  cls.def_property(
      "grad",
      [](const Tensor& t) -> py::object {
        Tensor grad = t.grad();
        return grad.defined() ? py::cast(grad) : py::none();
      },
      [](Tensor& t, const py::object& grad) {
        t.set_grad(grad.is_none() ? Tensor() : tensor_from(grad));
      },
      "The gradient that backward() left, a Tensor of this shape and dtype; None without one.");
  cls.def(
      "backward",
      [](const Tensor& t, const py::object& gradient, bool retain_graph, bool create_graph) {
        const Tensor start = gradient.is_none() ? Tensor() : tensor_from(gradient);
        const py::gil_scoped_release nogil;
        t.backward(start, retain_graph, create_graph);
      },
      py::arg("gradient") = py::none(), py::arg("retain_graph") = false,
      py::arg("create_graph") = false,
      R"(Add the gradients of this tensor to all leaves that require one.

Args:
    gradient: what this tensor's own gradient is, of its shape; may be omitted for one element.
    retain_graph: keep the graph, so that backward() can pass it again.
    create_graph: record the gradients, so that they can be differentiated; retains the graph.

Raises:
    InvalidArgumentError: nothing was recorded, or ``gradient`` is missing or does not fit.)");
  cls.def("register_hook", &add_hook, py::arg("hook"),
          R"(Call ``hook(leaf)`` as soon as backward() can add nothing more to this leaf's gradient.

It runs on the thread that called backward(); what it raises comes out of backward(). It may change
``leaf.grad``; what it returns must be None.

Returns:
    A function that removes the hook.)");
}

void bind_elementwise(py::module_& m) {
  m.def("add", &add, py::arg("a"), py::arg("b"), ReleaseGil(), "Element-wise sum.");
  m.def("sub", &sub, py::arg("a"), py::arg("b"), ReleaseGil(), "Element-wise difference.");
  m.def("mul", &mul, py::arg("a"), py::arg("b"), ReleaseGil(), "Element-wise product.");
  m.def("div", &div, py::arg("a"), py::arg("b"), ReleaseGil(), "Element-wise quotient.");
  m.def("neg", &neg, py::arg("a"), ReleaseGil(), "Element-wise negation.");
  m.def("pow", &pow, py::arg("a"), py::arg("exponent"), ReleaseGil(), "Element-wise power.");
  m.def("exp", &exp, py::arg("a"), ReleaseGil(), "Element-wise exponential.");
  m.def("log", &log, py::arg("a"), ReleaseGil(), "Element-wise natural logarithm.");
  m.def("sqrt", &sqrt, py::arg("a"), ReleaseGil(), "Element-wise square root.");
  m.def("tanh", &tanh, py::arg("a"), ReleaseGil(), "Element-wise hyperbolic tangent.");
  m.def("sigmoid", &sigmoid, py::arg("a"), ReleaseGil(), "Element-wise 1 / (1 + exp(-a)).");
  m.def("relu", &relu, py::arg("a"), ReleaseGil(), "Element-wise max(a, 0).");
}

void bind_layers(py::module_& m) {
  m.def("matmul", &matmul, py::arg("a"), py::arg("b"), ReleaseGil(),
        "[..., m, k] x [..., k, n] -> [..., m, n]; leading axes broadcast, vectors too.");
  m.def(
      "linear",
      [](const Tensor& input, const Tensor& weight, const MaybeTensor& bias) {
        return linear(input, weight, bias.value_or(Tensor()));
      },
      py::arg("input"), py::arg("weight"), py::arg("bias") = py::none(), ReleaseGil(),
      "input [..., in], weight [out, in], bias [out] or None -> [..., out].");
  m.def("max_pool2d", py::overload_cast<const Tensor&, int, int>(&max_pool2d), py::arg("input"),
        py::arg("kernel"), py::arg("stride") = 0, ReleaseGil(),
        "Maximum over kernel x kernel windows of [n, c, h, w]; stride 0 = kernel.");
  m.def("dropout", &dropout, py::arg("input"), py::arg("p"), py::arg("training") = true,
        ReleaseGil(), "Zeroes with probability ``p`` and scales the rest by 1/(1-p).");
  m.def(
      "cross_entropy",
      [](const Tensor& logits, const Tensor& targets) { return cross_entropy(logits, targets); },
      py::arg("logits"), py::arg("targets"), ReleaseGil(),
      "Mean cross entropy of logits [n, classes] against int64 targets [n], a scalar.");
  m.def(
      "mse_loss", [](const Tensor& input, const Tensor& target) { return mse_loss(input, target); },
      py::arg("input"), py::arg("target"), ReleaseGil(), "Mean squared difference, a scalar.");
}

// A thread's regions, the innermost last.
std::vector<std::unique_ptr<AutocastGuard>>& autocast_regions() {
  thread_local std::vector<std::unique_ptr<AutocastGuard>> regions;
  return regions;
}

void bind_autocast(py::module_& m) {
  m.def("is_autocast_enabled", &is_autocast_enabled,
        "Whether operations of this thread choose their dtype: see ``autocast``.");
  m.def(
      "autocast_dtype", [] { return std::string(name_of(autocast_dtype())); },
      "The name of the dtype that products are computed in within ``autocast``.");
  m.def("clear_autocast_cache", &clear_autocast_cache,
        "Drop the copies of parameters that this thread keeps until its outermost region ends.");
  // What autocast() of the Python package is made of.
  m.def("_enter_autocast", [](const py::object& dtype, bool enabled, bool cache_enabled) {
    autocast_regions().push_back(
        std::make_unique<AutocastGuard>(dtype_from(dtype), enabled, cache_enabled));
  });
  m.def("_exit_autocast", [] { autocast_regions().pop_back(); });
}

}  // namespace

void bind_autograd(py::module_& m) {
  bind_gradients(m);
  bind_elementwise(m);
  bind_layers(m);
  m.def("grad_enabled", &grad_enabled, "Whether operations of this thread are recorded.");
  // What no_grad() and its like of the Python package are made of.
  m.def("_set_grad_enabled", &set_grad_enabled);
  bind_autocast(m);
}

}  // namespace hvd::python
