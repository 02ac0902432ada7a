#include "horovod_cpp/autograd/function.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "bindings/native/bindings.h"
#include "bindings/native/numbers.h"
#include "horovod_cpp/autograd/engine/engine.h"
#include "horovod_cpp/autograd/engine/grad.h"

namespace hvd::python {
namespace {

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
      [owner = keep_alive(backward)](AutogradContext&, const Tensor& gradient) {
        const py::gil_scoped_acquire gil;
        auto* object = static_cast<PyObject*>(const_cast<void*>(owner.get()));
        return gradients_from(py::reinterpret_borrow<py::function>(object)(gradient));
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
  std::vector<Tensor> result;
  {
    const WithoutGil nogil;
    result = grad(outputs, inputs, starts, retain_graph, create_graph);
  }
  return to_list(result);
}

}  // namespace

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
  m.def("gradcheck", &gradcheck, py::arg("function"), py::arg("inputs"), py::arg("eps") = 1e-6,
        py::arg("tolerance") = 1e-5,
        R"(Compare the gradients that backward() gives with central differences.

Args:
    function: takes a list of Tensors and gives one; deterministic.
    inputs: list of Tensors; those that require grad are float64 leaves and are checked.
    eps: distance of the differences.
    tolerance: largest difference of a gradient's element, relative above 1.

Raises:
    InvalidArgumentError: a gradient differs; names the input, the element and both numbers.)");
  m.def("gradgradcheck", &gradgradcheck, py::arg("function"), py::arg("inputs"),
        py::arg("eps") = 1e-6, py::arg("tolerance") = 1e-5,
        R"(Compare second derivatives with central differences.

Args:
    function: takes a list of Tensors and gives one, of any shape; deterministic.
    inputs: as gradcheck()'s.
    eps: distance of the differences.
    tolerance: largest difference of an element, relative above 1.

Raises:
    InvalidArgumentError: a derivative differs.)");
}

}  // namespace hvd::python
