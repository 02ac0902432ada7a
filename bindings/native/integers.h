#pragma once

#include <optional>

#include "bindings/native/bindings.h"

// Python's ints beside int64 tensors: as doubles, as the number forms of operators take them, those
// beyond 2^53 would lose bits.
namespace hvd::python {

// An int64 scalar if the tensor is of int64 and the number fits; else nothing.
inline std::optional<Tensor> int64_beside(const Tensor& tensor, const py::handle& number) {
  if (tensor.dtype() != DType::kI64 || !py::isinstance<py::int_>(number)) return std::nullopt;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) return std::nullopt;
  Tensor scalar = Tensor::empty({}, DType::kI64);
  *scalar.data<std::int64_t>() = value;
  return scalar;
}

// The operator between a tensor and an int: `both` of two tensors where that is exact, else
// `number`.
template <typename Both, typename Number>
auto with_int(Both both, Number number) {
  return [=](const Tensor& tensor, const py::int_& value) {
    const std::optional<Tensor> exact = int64_beside(tensor, value);
    const double rounded = exact ? 0 : value.cast<double>();
    const WithoutGil nogil;
    return exact ? both(tensor, *exact) : number(tensor, rounded);
  };
}

}  // namespace hvd::python
