#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "bindings/native/bindings.h"

namespace hvd::python {

// A Python number as an argument. Anything that Python itself takes for such a number will do, a
// tensor of one element too, with two exceptions: a tensor that requires grad, because it would not
// receive a gradient, and for a whole number a bool or a tensor of another kind of numbers.
template <typename T>
struct Given {
  operator T() const { return value; }  // NOLINT: implicit
  T value{};
};
using Number = Given<double>;
using Integer = Given<std::int64_t>;  // axes, sizes, counts

using Integers = std::vector<Integer>;

inline std::vector<std::int64_t> list_of(const Integers& given) {
  return {given.begin(), given.end()};
}

// The object if it may stand for a number, an int of Python if for a whole one; else null. If
// `last_try`, as in pybind11's pass with conversions, a refusal that has a reason is thrown:
// InvalidArgumentError for a tensor that requires grad, TypeError for what is no integer.
py::object number_from(const py::handle& object, bool whole, bool last_try);

// `function` with Given<T> in the place of every number T among its arguments.
template <typename T>
struct AsGiven {
  using type = T;
};
template <typename T>
requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) struct AsGiven<T> {
  using type = Given<T>;
};
template <typename T>
struct AsGiven<std::optional<T>> {
  using type = std::optional<typename AsGiven<T>::type>;
};

template <typename Result, typename... Arguments>
auto given(Result (*function)(Arguments...)) {
  return [function](typename AsGiven<Arguments>::type... arguments) -> Result {
    return function(static_cast<Arguments>(arguments)...);
  };
}

template <typename Class, typename Result, typename... Arguments>
auto given(Result (Class::*function)(Arguments...) const) {
  return [function](const Class& self, typename AsGiven<Arguments>::type... arguments) -> Result {
    return (self.*function)(static_cast<Arguments>(arguments)...);
  };
}

}  // namespace hvd::python

template <typename T>
struct pybind11::detail::type_caster<hvd::python::Given<T>> {
  PYBIND11_TYPE_CASTER(hvd::python::Given<T>, make_caster<T>::name);

  bool load(handle source, bool convert) {
    const object number = hvd::python::number_from(source, std::is_integral_v<T>, convert);
    make_caster<T> plain;
    if (!number || !plain.load(number, convert)) return false;
    value.value = cast_op<T>(plain);
    return true;
  }
};
