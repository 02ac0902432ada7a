#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/native/bindings.h"
#include "core/base/status.h"

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
// InvalidArgumentError for a tensor that requires grad, TypeError for what is not an integer.
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

// -- arguments that say which of them is wrong, in one line: pybind11 lists the signature instead

// Throws TypeError: "clip_when must be a str, got 3 (int)".
[[noreturn]] inline void refuse_option(const std::string& name, const std::string& expected,
                                       const py::handle& given) {
  constexpr py::ssize_t kMost = 60;  // characters
  const py::str whole = py::repr(given);
  auto text = py::str(whole[py::slice(0, kMost, 1)]).cast<std::string>();
  text = text.substr(0, text.find('\n'));
  if (py::len(whole) > static_cast<std::size_t>(kMost)) text += "...";
  throw py::type_error(name + " must be " + expected + ", got " + text + " (" +
                       py::type::of(given).attr("__name__").cast<std::string>() + ")");
}

// "a Module"
inline std::string an_instance_of(const py::type& type) {
  const auto name = type.attr("__name__").cast<std::string>();
  return (std::string("AEIOU").find(name.front()) == std::string::npos ? "a " : "an ") + name;
}

// The value that `text` names. Throws InvalidArgumentError: "mode 'x': expected 'min' or 'max'".
template <typename T>
T named_value(const char* what, const std::string& text,
              std::initializer_list<std::pair<const char*, T>> known) {
  std::string names;
  for (const auto& [name, value] : known) {
    if (text == name) return value;
    const bool last = name == (known.end() - 1)->first;
    names += str_cat(names.empty() ? "" : last ? " or " : ", ", "'", name, "'");
  }
  throw InvalidArgumentError(what, " '", text, "': expected ", names);
}

// What an option of a type takes, in words.
template <typename T>
struct Expected {
  static std::string text() {
    static_assert(!std::is_same_v<T, bool>, "a bool is a Flag");
    if constexpr (std::is_unsigned_v<T>) {
      return "an int of at least 0";
    } else if constexpr (std::is_integral_v<T>) {
      return "an int";
    } else if constexpr (std::is_floating_point_v<T>) {
      return "a number";
    } else {
      return an_instance_of(py::type::of<T>());
    }
  }
};
template <>
struct Expected<std::string> {
  static std::string text() { return "a str"; }
};
template <typename T>
struct Expected<std::shared_ptr<T>> : Expected<T> {};
template <typename T>
struct Expected<std::optional<T>> {
  static std::string text() { return Expected<T>::text() + " or None"; }
};

// The value if the object is one; never for None. Numbers as Given<T> takes them.
template <typename T>
std::optional<T> value_of(const py::handle& source, bool convert) {
  if (source.is_none()) return std::nullopt;
  auto object = py::reinterpret_borrow<py::object>(source);
  if constexpr (std::is_arithmetic_v<T>) {
    object = number_from(source, std::is_integral_v<T>, /*last_try=*/false);
    if (!object) return std::nullopt;
  }
  py::detail::make_caster<T> caster;
  if (!caster.load(object, convert)) return std::nullopt;
  return py::detail::cast_op<T>(caster);
}

// The argument `name` of a function that is not overloaded.
template <typename T, Text name>
struct Option {
  operator const T&() const { return value; }  // NOLINT: implicit
  const T& operator*() const { return value; }
  T value{};
};

template <typename T>
bool load_option(T& value, const py::handle& source, bool convert) {
  auto loaded = value_of<T>(source, convert);
  if (loaded) value = std::move(*loaded);
  return loaded.has_value();
}

template <typename T>
bool load_option(std::optional<T>& value, const py::handle& source, bool convert) {
  value = value_of<T>(source, convert);
  return value.has_value() || source.is_none();
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

template <hvd::python::Text name_of_flag>
struct pybind11::detail::type_caster<hvd::python::Flag<name_of_flag>> {
  PYBIND11_TYPE_CASTER(hvd::python::Flag<name_of_flag>, make_caster<bool>::name);

  bool load(handle source, bool convert) {
    const std::optional<bool> given = hvd::python::flag_from(source);
    if (given) value.value = *given;
    if (!given && convert) {
      hvd::python::refuse_option(name_of_flag.characters, "True or False", source);
    }
    return given.has_value();
  }
};

template <typename T, hvd::python::Text text>
struct pybind11::detail::type_caster<hvd::python::Option<T, text>> {
  using Loaded = hvd::python::Option<T, text>;
  PYBIND11_TYPE_CASTER(Loaded, make_caster<T>::name);

  bool load(handle source, bool convert) {
    if (hvd::python::load_option(value.value, source, convert)) return true;
    hvd::python::refuse_option(text.characters, hvd::python::Expected<T>::text(), source);
  }
};
