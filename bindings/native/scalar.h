#pragma once

#include <cstdint>
#include <optional>

#include "bindings/native/numbers.h"

namespace hvd::python {

// A Number that stays what it is beside int64: a double rounds integers above 2^53.
struct Scalar {
  operator double() const { return value; }  // NOLINT: implicit
  double value = 0.0;
  std::optional<std::int64_t> whole;

  bool exact_in(DType dtype) const { return whole && dtype == DType::kI64; }
  // Of no axes.
  Tensor tensor(DType dtype) const {
    if (!exact_in(dtype)) return Tensor::scalar(value, dtype);
    Tensor exact = Tensor::empty({}, DType::kI64);
    *static_cast<std::int64_t*>(exact.data()) = *whole;
    return exact;
  }
};

// The int64 that an object which may stand for an integer is; none for others.
std::optional<std::int64_t> int64_from(const py::handle& object);

}  // namespace hvd::python

template <>
struct pybind11::detail::type_caster<hvd::python::Scalar> {
  PYBIND11_TYPE_CASTER(hvd::python::Scalar, make_caster<double>::name);

  bool load(handle source, bool convert) {
    make_caster<hvd::python::Number> number;
    if (!number.load(source, convert)) return false;
    value.value = cast_op<hvd::python::Number>(number);
    value.whole = hvd::python::int64_from(source);
    return true;
  }
};
