#pragma once

#include <pybind11/stl.h>

#include <utility>

#include "bindings/native/numbers.h"

namespace hvd::python {

// A pair of integers. A tensor is none: pybind11 would ask a scalar for its length.
struct TwoIntegers {
  Integer first;
  Integer second;
};

}  // namespace hvd::python

template <>
struct pybind11::detail::type_caster<hvd::python::TwoIntegers> {
  using Both = std::pair<hvd::python::Integer, hvd::python::Integer>;
  PYBIND11_TYPE_CASTER(hvd::python::TwoIntegers, make_caster<Both>::name);

  bool load(handle source, bool convert) {
    make_caster<Both> both;
    if (isinstance<hvd::Tensor>(source) || !both.load(source, convert)) return false;
    const Both loaded = cast_op<Both>(std::move(both));
    value = {loaded.first, loaded.second};
    return true;
  }
};
