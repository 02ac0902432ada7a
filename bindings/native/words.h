#pragma once

#include <pybind11/pybind11.h>

#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "bindings/native/bindings.h"
#include "bindings/native/numbers.h"

// What users of NumPy and of PyTorch call the same things.
namespace hvd::python {

// Another word for an argument's name: "dim" for "axis", "keepdim" for "keepdims".
struct OtherWord {
  const char* from;
  const char* to;

  py::arg operator()(py::arg argument) const {
    rename(argument);
    return argument;
  }
  py::arg_v operator()(py::arg_v argument) const {
    rename(argument);
    return argument;
  }
  // What is no argument: documentation, call guards.
  template <typename Extra>
  const Extra& operator()(const Extra& extra) const {
    return extra;
  }

 private:
  void rename(py::arg& argument) const {
    if (std::strcmp(argument.name, from) == 0) argument.name = to;
  }
};

template <typename Extra>
bool is_named(const Extra& extra, const char* name) {
  if constexpr (std::is_base_of_v<py::arg, Extra>) return std::strcmp(extra.name, name) == 0;
  return false;
}

// Defines a function whose arguments "axis" and "keepdims" are also called "dim" and "keepdim", in
// any mixture: an overload for each. To give both is a TypeError that lists them.
template <typename Scope, typename Function, typename... Extra>
void def_axis(Scope& scope, const char* name, Function function, const Extra&... extra) {
  constexpr OtherWord kDim{"axis", "dim"}, kKeepdim{"keepdims", "keepdim"};
  scope.def(name, function, extra...);
  scope.def(name, function, kKeepdim(kDim(extra))...);
  if (!(is_named(extra, "keepdims") || ...)) return;
  scope.def(name, function, kKeepdim(extra)...);
  scope.def(name, function, kDim(extra)...);
}

using Words = std::vector<OtherWord>;

template <typename Extra>
Extra in_words(const Words& words, Extra extra) {
  for (const OtherWord& word : words) extra = word(extra);
  return extra;
}

// Defines a function some of whose arguments are called otherwise in PyTorch: an overload with
// those words.
template <typename Scope, typename Function, typename... Extra>
void def_also(Scope& scope, const char* name, const Words& words, Function function,
              const Extra&... extra) {
  scope.def(name, function, extra...);
  scope.def(name, function, in_words(words, extra)...);
}

// The device that an object names; none if it names none. Throws UnsupportedError for kinds of
// devices that there are not, and InvalidArgumentError for "cuda:x".
std::optional<Device> device_from(const py::handle& object);
// The CPU for None; throws InvalidArgumentError for what names no device.
Device device_or_cpu(const py::object& device);
// dtype_from() of what might have been meant for a device: the error lists those as well.
DType dtype_beside_devices(const py::handle& object);
// Whether the object names the CPU; throws UnsupportedError if it names another device, where there
// are tensors alone.
bool is_cpu(const py::handle& object);

// A shape in one argument or in several.
inline Shape shape_from(const py::args& sizes) {
  return shape_from(sizes.size() == 1 ? py::object(sizes[0]) : py::object(sizes));
}

// Defines a function that makes a tensor of a shape, given as a tuple or as several numbers. `make`
// takes the shape, the dtype, the device and `More`, which `extra` names.
template <typename... More, typename Make, typename... Extra>
void def_sized(py::module_& m, const char* name, Make make, const char* doc,
               const Extra&... extra) {
  const auto finish = [](Tensor tensor, Flag<"requires_grad"> requires_grad) {
    if (requires_grad) tensor.requires_grad_();
    return tensor;
  };
  def_also(
      m, name, {{"shape", "size"}},
      [=](const ShapeLike& shape, const MaybeDType& dtype, More... more,
          Flag<"requires_grad"> requires_grad, const MaybeDevice& device) {
        // A second size, of the other form.
        if (PyIndex_Check(dtype.ptr()) != 0) throw py::reference_cast_error();
        return finish(
            make(shape_from(shape), dtype_or(dtype, DType::kF32), device_or_cpu(device), more...),
            requires_grad);
      },
      py::arg("shape"), py::arg("dtype") = py::none(), extra..., py::kw_only(),
      py::arg("requires_grad") = false, py::arg("device") = py::none(), doc);
  m.def(
      name,
      [=](const py::Args<Typed<"typing.SupportsIndex">>& size, const MaybeDType& dtype,
          More... more, Flag<"requires_grad"> requires_grad, const MaybeDevice& device) {
        if (size.empty()) throw py::type_error("expected a shape, got nothing");
        return finish(
            make(shape_from(size), dtype_or(dtype, DType::kF32), device_or_cpu(device), more...),
            requires_grad);
      },
      py::arg("dtype") = py::none(), extra..., py::arg("requires_grad") = false,
      py::arg("device") = py::none());
}

// Of a class Tensor: tensor_views.cc.
void bind_tensor_views(py::class_<Tensor>& cls);

}  // namespace hvd::python
