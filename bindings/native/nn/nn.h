#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/docs.h"
#include "bindings/native/numbers.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/module.h"

// The parts of bind_nn(), and what their arguments have in common.
namespace hvd::python {

void bind_nn_module(py::module_& m);
// Of layers and losses the functions go into `functional`.
void bind_nn_layers(py::module_& m, py::module_& functional);
void bind_nn_losses(py::module_& m, py::module_& functional);
void bind_convolution(py::module_& m);
void bind_nn_containers(py::module_& m);
void bind_nn_sequences(py::module_& m);
void bind_nn_init(py::module_& m);
void bind_models(py::module_& m);

// A class of Python for a layer or a model of C++.
template <typename Layer>
using LayerClass = py::classh<Layer, nn::Module>;

template <typename Layer, typename Init, typename... Extra>
LayerClass<Layer> define_layer(py::module_& m, const char* name, const std::string& what,
                               Init&& init, const Extra&... extra) {
  return define_class<Layer, nn::Module>(m, name, what, std::forward<Init>(init), extra...);
}

// Lets Python classes derive from Module; keeps their Python half alive while C++ holds them.
class PythonModule : public nn::Module, public py::trampoline_self_life_support {
 public:
  Tensor forward(const Tensor& input) override;
  void train(bool mode) override { PYBIND11_OVERRIDE(void, nn::Module, train, mode); }
  std::string class_name() const override;
  std::string extra_repr() const override {
    PYBIND11_OVERRIDE(std::string, nn::Module, extra_repr, );
  }
};

using ModuleClass = py::classh<nn::Module, PythonModule>;

// The C++ half. Throws AttributeError, `what` first, while super().__init__() was not called.
nn::Module& module_of(const py::handle& self, const char* what);

// Registration by name and by assignment, and the lists of what is registered.
void def_parts(ModuleClass& cls);

using MaybeTensor = std::optional<Tensor>;

// None for an undefined tensor.
inline MaybeTensor to_object(const Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

// What C++ takes in the place of an argument from Python.
inline Tensor native(const MaybeTensor& given) {
  return given.value_or(Tensor());
}
inline std::vector<std::int64_t> native(const Integers& given) {
  return list_of(given);
}
template <typename Plain>
const Plain& native(const Plain& given) {
  return given;
}

// `function`, which runs without the GIL, with arguments of the types `Given`.
template <typename... Given, typename Function>
auto converting(Function function) {
  return [function](const Given&... given) {
    const auto call = [function](const auto&... arguments) {
      const WithoutGil nogil;
      return function(arguments...);
    };
    return call(native(given)...);
  };
}

// One int, or a pair of them. TypeError on everything else.
IntPair int_pair_from(const py::object& object);

// The same, None being the input's extent, of one or of both.
using OutputSize = Typed<"int | tuple[int | None, int | None] | None">;
IntPair output_size_from(const py::object& object);

// Puts another parameter in the place of a layer's own, so that layers can share one; None removes
// it. Throws InvalidArgumentError on another shape and on a tensor that is not a leaf.
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

// -- what BatchNorm and SyncBatchNorm have in common
inline constexpr Arg kNumFeatures{"num_features", "extent of axis 1."};
inline constexpr Arg kStatisticsMomentum{
    "momentum",
    "how far a batch moves the running statistics; None: they are the mean over batches."};
inline constexpr Arg kAffine{"affine",
                             "with ``weight`` (at first 1) and ``bias`` (0), [num_features]."};
inline constexpr Arg kTrackRunningStats{"track_running_stats",
                                        "False: evaluation uses the batch's statistics too."};

template <typename Class>
void def_batch_norm_state(Class& cls) {
  using Layer = typename Class::type;
  def_weight_and_bias(cls);
  const auto buffer = [&cls](const char* name, Tensor Layer::*member, const char* doc) {
    cls.def_property_readonly(
        name, [member](const Layer& layer) { return to_object(layer.*member); }, doc);
  };
  constexpr const char* kUsed = "What evaluation uses, [num_features]; a buffer, not a parameter.";
  buffer("running_mean", &Layer::running_mean, kUsed);
  buffer("running_var", &Layer::running_var, kUsed);
  buffer("num_batches_tracked", &Layer::num_batches_tracked,
         "How many batches moved the statistics, an int64 scalar; a buffer.");
}

}  // namespace hvd::python
