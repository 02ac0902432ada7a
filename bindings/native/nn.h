#pragma once

#include <optional>
#include <string>

#include "bindings/native/bindings.h"
#include "horovod_cpp/autograd/losses.h"
#include "horovod_cpp/autograd/pooling.h"

// The parts of bind_nn(), and what their arguments have in common.
namespace hvd::python {

void bind_nn_module(py::module_& m);
void bind_nn_layers(py::module_& m);
void bind_convolution(py::module_& m);
void bind_nn_containers(py::module_& m);
void bind_nn_sequences(py::module_& m);
void bind_nn_losses(py::module_& m);
void bind_nn_functional(py::module_& m);
void bind_nn_init(py::module_& m);
void bind_models(py::module_& m);

using MaybeTensor = std::optional<Tensor>;

inline Tensor or_none(const MaybeTensor& tensor) {
  return tensor.value_or(Tensor());
}

// None for an undefined tensor.
inline py::object to_object(const Tensor& tensor) {
  return tensor.defined() ? py::cast(tensor) : py::none();
}

// One int, or a pair of them; None is 0. TypeError on everything else.
IntPair int_pair_from(const py::object& object);

// "none", "mean", "sum", "batchmean". Throws InvalidArgumentError listing them.
LossReduction reduction_from(const std::string& name);

// `weight` and `bias` of a layer; None without one.
template <typename Class>
void def_weight_and_bias(Class& cls) {
  using Layer = typename Class::type;
  cls.def_property_readonly(
      "weight", [](const Layer& layer) { return to_object(layer.weight); },
      "The parameter; None without one.");
  cls.def_property_readonly(
      "bias", [](const Layer& layer) { return to_object(layer.bias); },
      "The parameter; None without one.");
}

}  // namespace hvd::python
