#pragma once

#include "bindings/native/bindings.h"
#include "horovod_cpp/nn/module.h"

namespace hvd::python {

template <typename Layer>
void def_weight_and_bias(py::classh<Layer, nn::Module>& cls) {
  cls.def_property_readonly(
      "weight", [](const Layer& layer) { return layer.weight; }, "The parameter.");
  cls.def_property_readonly(
      "bias",
      [](const Layer& layer) -> py::object {
        return layer.bias.defined() ? py::cast(layer.bias) : py::none();
      },
      "The parameter; None without one.");
}

}  // namespace hvd::python
