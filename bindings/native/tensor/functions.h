#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "bindings/native/numbers.h"

// What the files functions*.cc share.
namespace hvd::python {

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

// Parts of bind_functions(); those of `cls` are methods only.
void bind_indexing(py::module_& m, py::class_<Tensor>& cls);
void bind_arrangement(py::module_& m);

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
