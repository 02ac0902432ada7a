#include "horovod_cpp/autograd/functions/functions.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/native/bindings.h"
#include "bindings/native/numbers.h"
#include "bindings/native/tensor/docs.h"
#include "horovod_cpp/autograd/modes.h"

namespace hvd::python {
namespace {

using MaybeTensor = std::optional<Tensor>;
using LeafHook = Typed<"collections.abc.Callable[[Tensor], None]">;

std::function<void()> add_hook(const Tensor& tensor, const LeafHook& hook) {
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
      [](Tensor& t, Flag<"requires_grad"> value) { t.requires_grad_(value); },
      "Whether backward() leaves a gradient here. May be set on leaves of a floating dtype.");
  cls.def(
      "requires_grad_",
      [](Tensor& t, Flag<"value"> value) -> Tensor& { return t.requires_grad_(value); },
      py::return_value_policy::reference_internal, py::arg("value") = true,
      R"(Set ``requires_grad`` to ``value`` and return the tensor.)");
  cls.def_property_readonly("is_leaf", &Tensor::is_leaf,
                            "Whether no recorded operation produced this tensor.");
  cls.def_property(
      "grad", [](const Tensor& t) -> Typed<"Tensor | None"> {
        Tensor grad = t.grad();
        return grad.defined() ? py::cast(grad) : py::none();
      },
      [](Tensor& t, const MaybeArray& grad) {
        t.set_grad(grad.is_none() ? Tensor() : tensor_from(grad));
      },
      "The gradient that backward() left, a Tensor of this shape and dtype; None without one.");
  cls.def(
      "backward",
      [](const Tensor& t, const MaybeArray& gradient, Flag<"retain_graph"> retain_graph,
         Flag<"create_graph"> create_graph) {
        const Tensor start = gradient.is_none() ? Tensor() : tensor_from(gradient);
        const WithoutGil nogil;
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
  cls.def(
      "register_hook", &add_hook, py::arg("hook"),
      R"(Call ``hook(leaf)`` as soon as backward() can add nothing more to this leaf's gradient, of any shape.

It runs on the thread that called backward(); what it raises comes out of backward(). It may change
``leaf.grad``; what it returns must be None.

Returns:
    A function that removes the hook.)");
}

void bind_elementwise(py::module_& m) {
  const auto unary = [&m](const char* name, Tensor (*function)(const Tensor&), const char* what) {
    m.def(name, function, py::arg("a"), ReleaseGil(), unary_doc(what).c_str());
  };
  const auto binary = [&m](const char* name, Tensor (*function)(const Tensor&, const Tensor&),
                           const char* what) {
    m.def(name, function, py::arg("a"), py::arg("b"), ReleaseGil(), binary_doc(what).c_str());
  };
  binary("add", &add, "Element-wise sum.");
  binary("sub", &sub, "Element-wise difference.");
  binary("mul", &mul, "Element-wise product.");
  binary("div", &div, "Element-wise quotient.");
  unary("neg", &neg, "Element-wise negation; integers too.");
  m.def("pow", py::overload_cast<const Tensor&, const Tensor&>(&pow), py::arg("a"),
        py::arg("exponent"), ReleaseGil(),
        tensor_doc("Element-wise power.",
                   {kFloating, "exponent: a number, or a Tensor; shapes broadcast."},
                   "A new Tensor of the common shape.", kOtherDtype)
            .c_str());
  m.def("pow", py::overload_cast<const Tensor&, double>(&pow), py::arg("a"), py::arg("exponent"),
        ReleaseGil());
  unary("exp", &exp, "Element-wise exponential.");
  unary("log", &log, "Element-wise natural logarithm.");
  unary("sqrt", &sqrt, "Element-wise square root.");
  unary("tanh", &tanh, "Element-wise hyperbolic tangent.");
  unary("sigmoid", &sigmoid, "Element-wise 1 / (1 + exp(-a)).");
  unary("relu", &relu, "Element-wise max(a, 0).");
}

void bind_layers(py::module_& m) {
  m.def("matmul", &matmul, py::arg("a"), py::arg("b"), ReleaseGil(),
        tensor_doc("Products of matrices: [..., m, k] x [..., k, n] -> [..., m, n].",
                   {"a: a Tensor of a floating dtype; a vector is a row.",
                    "b: another one of its dtype; a vector is a column. Leading axes broadcast."},
                   kNew, kMisfit)
            .c_str());
  m.def(
      "linear",
      [](const Tensor& input, const Tensor& weight, const MaybeTensor& bias) {
        return linear(input, weight, bias.value_or(Tensor()));
      },
      py::arg("input"), py::arg("weight"), py::arg("bias") = py::none(), ReleaseGil(),
      tensor_doc("input x weight^T + bias.",
                 {"input: [..., in].", "weight: [out, in].", "bias: [out], or None."},
                 "[..., out].", kMisfit)
          .c_str());
  m.def(
      "max_pool2d", given(py::overload_cast<const Tensor&, int, int>(&max_pool2d)),
      py::arg("input"), py::arg("kernel"), py::arg("stride") = 0, ReleaseGil(),
      tensor_doc("Maximum over square windows.",
                 {"input: [n, c, h, w] of a floating dtype.", "kernel: side of a window in pixels.",
                  "stride: pixels between windows; 0: ``kernel``."},
                 "[n, c, h', w'].", "InvalidArgumentError: other shapes or dtypes.")
          .c_str());
  m.def(
      "dropout", given<"training">(&dropout), py::arg("input"), py::arg("p"),
      py::arg("training") = true, ReleaseGil(),
      tensor_doc("Zeroes elements at random and scales the rest by 1/(1-p).",
                 {"input: a Tensor of any shape and a floating dtype.",
                  "p: the probability, within [0, 1).", "training: False gives the input itself."},
                 "A Tensor of that shape.", "InvalidArgumentError: another ``p`` or dtype.")
          .c_str());
  m.def(
      "cross_entropy",
      [](const Tensor& logits, const Tensor& targets) { return cross_entropy(logits, targets); },
      py::arg("logits"), py::arg("targets"), ReleaseGil(),
      tensor_doc("Mean cross entropy.",
                 {"logits: [n, classes] of a floating dtype.", "targets: int64 [n]."}, "A scalar.",
                 "InvalidArgumentError: shapes do not fit, or a target is not a class.")
          .c_str());
  m.def(
      "mse_loss", [](const Tensor& input, const Tensor& target) { return mse_loss(input, target); },
      py::arg("input"), py::arg("target"), ReleaseGil(),
      tensor_doc("Mean squared difference.",
                 {"input: a Tensor of any shape and a floating dtype.",
                  "target: of the same shape and dtype."},
                 "A scalar.", "InvalidArgumentError: shapes or dtypes differ.")
          .c_str());
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
  m.def("_enter_autocast",
        [](const DTypeLike& dtype, Flag<"enabled"> enabled, Flag<"cache_enabled"> cache_enabled) {
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
  m.def("_set_grad_enabled", given<"enabled">(&set_grad_enabled));
  bind_autocast(m);
}

}  // namespace hvd::python
