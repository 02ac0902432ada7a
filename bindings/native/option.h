#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "bindings/native/numbers.h"

// Arguments that say which of them is wrong, in one line: pybind11 lists the signature instead.
namespace hvd::python {

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

template <typename T, hvd::python::Text text>
struct pybind11::detail::type_caster<hvd::python::Option<T, text>> {
  using Loaded = hvd::python::Option<T, text>;
  PYBIND11_TYPE_CASTER(Loaded, make_caster<T>::name);

  bool load(handle source, bool convert) {
    if (hvd::python::load_option(value.value, source, convert)) return true;
    hvd::python::refuse_option(text.characters, hvd::python::Expected<T>::text(), source);
  }
};
