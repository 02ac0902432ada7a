#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bindings/native/bindings.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/functions/losses.h"
#include "horovod_cpp/nn/module.h"

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
void bind_nn_origins(py::module_& m);
void bind_models(py::module_& m);

// A class of Python for a layer or a model of C++.
template <typename Layer>
using LayerClass = py::classh<Layer, nn::Module>;

using MaybeTensor = std::optional<Tensor>;

inline Tensor or_none(const MaybeTensor& tensor) {
  return tensor.value_or(Tensor());
}

// None for an undefined tensor.
inline MaybeTensor to_object(const Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

// One int, or a pair of them; None is 0. TypeError on everything else.
IntPair int_pair_from(const py::object& object);

// The same, None being the input's extent, of one or of both.
using OutputSize = Typed<"int | tuple[int | None, int | None] | None">;
IntPair output_size_from(const py::object& object);

// "none", "mean", "sum", "batchmean". Throws InvalidArgumentError listing them.
LossReduction reduction_from(const std::string& name);

// Puts another parameter in the place of a layer's own, so that layers can share one; None removes
// it. Throws InvalidArgumentError on another shape and on what is no leaf.
void assign_parameter(nn::Module& module, const char* name, Tensor& member,
                      const MaybeTensor& value);
// Puts another module in the place of the one that a model registered.
void assign_module(nn::Module& module, const char* name, const std::shared_ptr<nn::Module>& value);

// `weight` of a layer that always has one.
template <typename Class>
void def_weight(Class& cls) {
  using Layer = typename Class::type;
  cls.def_property(
      "weight", [](const Layer& layer) { return layer.weight; },
      [](Layer& layer, const Tensor& value) {
        assign_parameter(layer, "weight", layer.weight, value);
      },
      "The parameter. Assigning another layer's shares it.");
}

// A parameter that a layer may do without.
template <typename Class>
void def_optional(Class& cls, const char* name, Tensor Class::type::*member) {
  using Layer = typename Class::type;
  cls.def_property(
      name, [member](const Layer& layer) { return to_object(layer.*member); },
      [member, name](Layer& layer, const MaybeTensor& value) {
        assign_parameter(layer, name, layer.*member, value);
      },
      "The parameter; None without one.");
}

template <typename Class>
void def_bias(Class& cls) {
  def_optional(cls, "bias", &Class::type::bias);
}

// Of a layer that may have neither.
template <typename Class>
void def_weight_and_bias(Class& cls) {
  def_optional(cls, "weight", &Class::type::weight);
  def_bias(cls);
}

}  // namespace hvd::python
