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

// The argument `name` of True or False. Nothing else will do, also no 0 or 1: sum(0, 1) would keep
// the axis that its caller wanted to sum too.
template <Text name>
struct Flag {
  operator bool() const { return value; }  // NOLINT: implicit
  bool value = false;
};

// None if the object is neither Python's True or False nor NumPy's.
std::optional<bool> flag_from(const py::handle& object);
// Throws TypeError: "keepdims must be True or False, got 1 (int)".
[[noreturn]] void refuse_flag(const char* name, const py::handle& given);

// `function` with Given<T> in the place of every number T among its arguments, and a Flag in the
// place of a bool.
template <typename T, Text flag>
struct AsGiven {
  using type = T;
};
template <typename T, Text flag>
requires(std::is_arithmetic_v<T>) struct AsGiven<T, flag> {
  using type = Given<T>;
};
template <Text flag>
struct AsGiven<bool, flag> {
  static_assert(sizeof(flag.characters) > 1, "the bool has no name: given<\"keepdims\">(...)");
  using type = Flag<flag>;
};
template <typename T, Text flag>
struct AsGiven<std::optional<T>, flag> {
  using type = std::optional<typename AsGiven<T, flag>::type>;
};

template <Text flag = "", typename Result, typename... Arguments>
auto given(Result (*function)(Arguments...)) {
  return [function](typename AsGiven<Arguments, flag>::type... arguments) -> Result {
    return function(static_cast<Arguments>(arguments)...);
  };
}

template <Text flag = "", typename Class, typename Result, typename... Arguments>
auto given(Result (Class::*function)(Arguments...) const) {
  return [function](const Class& self,
                    typename AsGiven<Arguments, flag>::type... arguments) -> Result {
    return (self.*function)(static_cast<Arguments>(arguments)...);
  };
}

template <Text flag = "", typename Class, typename Result, typename... Arguments>
auto given(Result (Class::*function)(Arguments...)) {
  return [function](Class& self, typename AsGiven<Arguments, flag>::type... arguments) -> Result {
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

template <hvd::python::Text name_of_flag>
struct pybind11::detail::type_caster<hvd::python::Flag<name_of_flag>> {
  PYBIND11_TYPE_CASTER(hvd::python::Flag<name_of_flag>, make_caster<bool>::name);

  bool load(handle source, bool convert) {
    const std::optional<bool> given = hvd::python::flag_from(source);
    if (given) value.value = *given;
    if (!given && convert) hvd::python::refuse_flag(name_of_flag.characters, source);
    return given.has_value();
  }
};
