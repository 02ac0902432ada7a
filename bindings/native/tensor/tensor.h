#pragma once

#include <pybind11/stl.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "bindings/native/docs.h"
#include "bindings/native/numbers.h"

// What the files of tensor share.
namespace hvd::python {

using TensorClass = py::class_<Tensor>;

// -- what users of NumPy and of PyTorch call the same things

// Another name for an argument: "dim" for "axis", "keepdim" for "keepdims".
struct ArgumentAlias {
  const char* from;
  const char* to;
};
using Aliases = std::vector<ArgumentAlias>;

// An argument under its alias, if it has one; documentation and call guards as they are.
template <typename Extra>
Extra renamed(const Aliases& aliases, Extra extra) {
  if constexpr (std::is_base_of_v<py::arg, Extra>) {
    for (const auto& [from, to] : aliases) {
      if (std::strcmp(extra.name, from) == 0) extra.name = to;
    }
  }
  return extra;
}

template <typename Extra>
bool is_named(const Extra& extra, const char* name) {
  if constexpr (std::is_base_of_v<py::arg, Extra>) return std::strcmp(extra.name, name) == 0;
  return false;
}

// Defines a function whose arguments "axis" and "keepdims" are also called "dim" and "keepdim", in
// any mixture: an overload for each. To give both is a TypeError that lists them.
template <typename Scope, typename Function, typename... Extra>
void def_axis(Scope& scope, const char* name, Function function, const std::string& what,
              const Extra&... extra) {
  constexpr ArgumentAlias kDim{"axis", "dim"}, kKeepdim{"keepdims", "keepdim"};
  const std::string doc = docstring(what, extra...);
  const auto def = [&](const Aliases& aliases) {
    scope.def(name, function, renamed(aliases, extra)..., doc.c_str());
  };
  def({});
  def({kDim, kKeepdim});
  if (!(is_named(extra, "keepdims") || ...)) return;
  def({kKeepdim});
  def({kDim});
}

// Defines a function some of whose arguments are called otherwise in PyTorch: an overload with
// those names.
template <typename Scope, typename Function, typename... Extra>
void def_also(Scope& scope, const char* name, const Aliases& aliases, Function function,
              const std::string& what, const Extra&... extra) {
  const std::string doc = docstring(what, extra...);
  scope.def(name, function, extra..., doc.c_str());
  scope.def(name, function, renamed(aliases, extra)..., doc.c_str());
}

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
// takes the shape, the dtype, the device and `More`, which `more` names.
template <typename... More, typename Make, typename... Extra>
void def_sized(py::module_& m, const char* name, Make make, const char* what,
               const DefaultArg& dtype_arg, const DefaultArg& device_arg, const Invalid& invalid,
               const Extra&... more) {
  const auto requires_grad_arg =
      Arg("requires_grad", "whether backward() leaves a gradient there.") = false;
  const auto made = [make](const Shape& shape, const py::object& dtype, const py::object& device,
                           More... rest, Flag<"requires_grad"> requires_grad) {
    Tensor tensor = make(shape, dtype_or(dtype, DType::kF32), device_or_cpu(device), rest...);
    if (requires_grad) tensor.requires_grad_();
    return tensor;
  };
  def_also(
      m, name, {{"shape", "size"}},
      [made](const ShapeLike& shape, const MaybeDType& dtype, More... rest,
             Flag<"requires_grad"> requires_grad, const MaybeDevice& device) {
        // A second size, of the other form.
        if (PyIndex_Check(dtype.ptr()) != 0) throw py::reference_cast_error();
        return made(shape_from(shape), dtype, device, rest..., requires_grad);
      },
      what, Arg("shape", "a tuple (also called size), or several numbers."), dtype_arg, more...,
      py::kw_only(), requires_grad_arg, device_arg, kNew, invalid);
  m.def(
      name,
      [made](const py::Args<Typed<"typing.SupportsIndex">>& size, const MaybeDType& dtype,
             More... rest, Flag<"requires_grad"> requires_grad, const MaybeDevice& device) {
        if (size.empty()) throw py::type_error("expected a shape, got nothing");
        return made(shape_from(size), dtype, device, rest..., requires_grad);
      },
      dtype_arg, more..., requires_grad_arg, device_arg);
}

// Parts of bind_tensor().
void bind_tensor_views(TensorClass& cls);

// -- axes and indices

// Several axes. A tensor without axes is a number, and no list.
struct AxisList {
  Integers axes;
};

// One axis or several.
using Axes = std::variant<Integer, AxisList>;
using MaybeAxes = std::optional<Axes>;

inline std::vector<std::int64_t> list_of(const MaybeAxes& axes) {
  if (!axes) return {};
  if (const auto* one = std::get_if<Integer>(&*axes)) return {*one};
  return list_of(std::get<AxisList>(*axes).axes);
}

// A number beside a tensor, in its dtype. Throws InvalidArgumentError where that has no such
// number.
Tensor beside(const Scalar& number, const Tensor& other);

// The function of a tensor and a number: `both` of two tensors where a double would round, else
// `number`.
template <typename Both, typename WithNumber>
auto with_scalar(Both both, WithNumber number) {
  return [=](const Tensor& tensor, const Scalar& value) {
    return value.exact_in(tensor.dtype()) ? both(tensor, value.tensor(tensor.dtype()))
                                          : number(tensor, value.value);
  };
}

}  // namespace hvd::python

template <>
struct pybind11::detail::type_caster<hvd::python::AxisList> {
  PYBIND11_TYPE_CASTER(hvd::python::AxisList, make_caster<hvd::python::Integers>::name);

  bool load(handle source, bool convert) {
    if (isinstance<hvd::Tensor>(source) && source.cast<const hvd::Tensor&>().dim() == 0) {
      return false;
    }
    make_caster<hvd::python::Integers> list;
    if (!list.load(source, convert)) return false;
    value.axes = cast_op<hvd::python::Integers>(std::move(list));
    return true;
  }
};
