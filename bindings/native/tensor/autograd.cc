#include "horovod_cpp/autograd/functions/functions.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/native/tensor/tensor.h"
#include "horovod_cpp/autograd/engine/engine.h"
#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/function.h"
#include "horovod_cpp/autograd/modes.h"

namespace hvd::python {
namespace {

using MaybeTensor = std::optional<Tensor>;
using LeafHook = Typed<"collections.abc.Callable[[Tensor], None]">;

std::function<void()> add_hook(const Tensor& tensor, const LeafHook& hook) {
  return tensor.register_hook([shared = SharedObject(hook)](const Tensor& leaf) {
    const py::gil_scoped_acquire gil;
    const py::object result = shared.get()(leaf);
    if (result.is_none()) return;
    throw py::type_error(
        str_cat("register_hook: a hook is called with the leaf and returns "
                "None, not ",
                Py_TYPE(result.ptr())->tp_name, "; it may change leaf.grad"));
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
  define(
      cls, "backward",
      [](const Tensor& t, const MaybeArray& gradient, Flag<"retain_graph"> retain_graph,
         Flag<"create_graph"> create_graph) {
        const Tensor start = gradient.is_none() ? Tensor() : tensor_from(gradient);
        const WithoutGil nogil;
        t.backward(start, retain_graph, create_graph);
      },
      "Add the gradients of this tensor to all leaves that require one.",
      Arg("gradient",
          "what this tensor's own gradient is, of its shape; may be omitted for one element.") =
          py::none(),
      Arg("retain_graph", "keep the graph, so that backward() can pass it again.") = false,
      Arg("create_graph",
          "record the gradients, so that they can be differentiated; retains the graph.") = false,
      Invalid{"nothing was recorded, or ``gradient`` is missing or does not fit."});
  cls.def(
      "register_hook", &add_hook, py::arg("hook"),
      R"(Call ``hook(leaf)`` as soon as backward() can add nothing more to this leaf's gradient, of any shape.

It runs on the thread that called backward(); backward() raises what it raises. It may change
``leaf.grad``; what it returns must be None.

Returns:
    A function that removes the hook.)");
}

void bind_layers(py::module_& m) {
  define(m, "matmul", &matmul, "Products of matrices: [..., m, k] x [..., k, n] -> [..., m, n].",
         Arg("a", "a Tensor of a floating dtype; a vector is a row."),
         Arg("b", "another one of its dtype; a vector is a column. Leading axes broadcast."),
         ReleaseGil(), kNew, kMisfit);
  define(
      m, "linear",
      [](const Tensor& input, const Tensor& weight, const MaybeTensor& bias) {
        return linear(input, weight, bias.value_or(Tensor()));
      },
      "input x weight^T + bias.", Arg("input", "[..., in]."), Arg("weight", "[out, in]."),
      Arg("bias", "[out], or None.") = py::none(), ReleaseGil(), Returns{"[..., out]."}, kMisfit);
  define(m, "max_pool2d", given(py::overload_cast<const Tensor&, int, int>(&max_pool2d)),
         "Maximum over square windows.", Arg("input", "[n, c, h, w] of a floating dtype."),
         Arg("kernel", "side of a window in pixels."),
         Arg("stride", "pixels between windows; 0: ``kernel``.") = 0, ReleaseGil(),
         Returns{"[n, c, h', w']."}, Invalid{"other shapes or dtypes."});
  define(m, "dropout", given<"training">(&dropout),
         "Zeroes elements at random and scales the rest by 1/(1-p).", kInput,
         Arg("p", "the probability, within [0, 1)."),
         Arg("training", "False gives the input itself.") = true, ReleaseGil(),
         Returns{"A Tensor of that shape."}, Invalid{"another ``p`` or dtype."});
  define(
      m, "cross_entropy",
      [](const Tensor& logits, const Tensor& targets) { return cross_entropy(logits, targets); },
      "Mean cross entropy.", Arg("logits", "[n, classes] of a floating dtype."),
      Arg("targets", "int64 [n]."), ReleaseGil(), Returns{"A scalar."},
      Invalid{"shapes do not fit, or a target is not a class."});
  define(
      m, "mse_loss",
      [](const Tensor& input, const Tensor& target) { return mse_loss(input, target); },
      "Mean squared difference.", kInput, Arg("target", "of the same shape and dtype."),
      ReleaseGil(), Returns{"A scalar."}, Invalid{"shapes or dtypes differ."});
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

// Gradients that Python gives: Tensors, arrays, or None.
std::vector<Tensor> gradients_from(const py::handle& given) {
  std::vector<Tensor> gradients;
  for (const py::handle& each : py::iter(given)) {
    gradients.push_back(each.is_none() ? Tensor() : tensor_from(each));
  }
  return gradients;
}

Tensor record_function(
    const std::shared_ptr<AutogradContext>& context, const Tensor& result,
    const std::vector<Tensor>& inputs,
    const Typed<"collections.abc.Callable[[Tensor], list[Tensor | None]]">& backward) {
  return AutogradContext::record(
      context, result, inputs,
      [shared = SharedObject(backward)](AutogradContext&, const Tensor& gradient) {
        const py::gil_scoped_acquire gil;
        return gradients_from(shared.get()(gradient));
      });
}

py::list to_list(const std::vector<Tensor>& tensors) {
  py::list list;
  for (const Tensor& tensor : tensors) {
    list.append(tensor.defined() ? py::cast(tensor) : py::none());
  }
  return list;
}

using MaybeTensors = Typed<"list[Tensor | None]">;

MaybeTensors gradients_of(
    const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
    const Typed<"collections.abc.Iterable[ArrayLike | None] | None">& grad_outputs,
    Flag<"retain_graph"> retain_graph, Flag<"create_graph"> create_graph) {
  const std::vector<Tensor> starts =
      grad_outputs.is_none() ? std::vector<Tensor>() : gradients_from(grad_outputs);
  return to_list(
      without_gil([&] { return grad(outputs, inputs, starts, retain_graph, create_graph); }));
}

void bind_custom_function(py::module_& m) {
  // What horovod_cpp.autograd is made of.
  py::class_<AutogradContext, std::shared_ptr<AutogradContext>>(m, "_FunctionContext",
                                                                py::dynamic_attr())
      .def(py::init<std::string>())
      .def("save_for_backward",
           [](AutogradContext& context, const py::Args<MaybeArray>& tensors) {
             context.save_for_backward(gradients_from(tensors));
           })
      .def_property_readonly(
          "saved_tensors", [](const AutogradContext& context) -> Typed<"tuple[typing.Any, ...]"> {
            return py::tuple(to_list(context.saved_tensors()));
          });
  m.def("_record_function", &record_function);
  m.def("_grad", &gradients_of);
  m.def("_set_detect_anomaly", given<"enabled">(&set_detect_anomaly));
  m.def("anomaly_enabled", &anomaly_enabled,
        "Whether backward() looks for NaN in every gradient and names the operation.");
  const auto eps = Arg("eps", "distance of the differences.") = 1e-6;
  define(
      m, "gradcheck", &gradcheck,
      "Compare the gradients that backward() gives with central differences.",
      Arg("function", "takes a list of Tensors and gives one; deterministic."),
      Arg("inputs", "list of Tensors; those that require grad are float64 leaves and are checked."),
      eps, Arg("tolerance", "largest difference of a gradient's element, relative above 1.") = 1e-5,
      Invalid{"a gradient differs; names the input, the element and both numbers."});
  define(m, "gradgradcheck", &gradgradcheck, "Compare second derivatives with central differences.",
         Arg("function", "takes a list of Tensors and gives one, of any shape; deterministic."),
         Arg("inputs", "as gradcheck()'s."), eps,
         Arg("tolerance", "largest difference of an element, relative above 1.") = 1e-5,
         Invalid{"a derivative differs."});
}

}  // namespace

void bind_autograd(py::module_& m) {
  bind_gradients(m);
  bind_layers(m);
  m.def("grad_enabled", &grad_enabled, "Whether operations of this thread are recorded.");
  // What no_grad() and its like of the Python package are made of.
  m.def("_set_grad_enabled", given<"enabled">(&set_grad_enabled));
  bind_autocast(m);
  bind_custom_function(m);
}

}  // namespace hvd::python
