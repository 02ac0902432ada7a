#pragma once

#include <string>
#include <utility>

#include "bindings/native/bindings.h"

// Arguments that say what they mean, so that a function's signature and its docstring are written
// in one place, and functions, methods and classes with the same argument share it.
namespace hvd::python {

struct DefaultArg;

struct Arg : py::arg {
  constexpr Arg(const char* argument, const char* explanation)
      : py::arg(argument), text(explanation) {}
  // With a default, as py::arg's.
  template <typename T>
  DefaultArg operator=(T&& value) const;  // NOLINT: returns another type
  const char* text;
};

struct DefaultArg : py::arg_v {
  DefaultArg(py::arg_v argument, const char* explanation)
      : py::arg_v(std::move(argument)), text(explanation) {}
  const char* text;
};

template <typename T>
DefaultArg Arg::operator=(T&& value) const {  // NOLINT: returns another type
  return {py::arg(name) = std::forward<T>(value), text};
}

// What else a docstring has. Stands among the arguments of define() and its like.
struct DocPart {
  const char* text;
};
struct ArgText : DocPart {};  // "name: what it means", in the list of arguments
struct Returns : DocPart {};
struct Raises : DocPart {};   // "TypeError: why"; several make one list
struct Invalid : DocPart {};  // why there is an InvalidArgumentError, likewise
struct Remark : DocPart {};   // a paragraph of its own

class Docstring {
 public:
  explicit Docstring(std::string what) : text_(std::move(what)) {}
  const std::string& text() const { return text_; }

  void add(const Arg& argument) { add_argument(argument.name, argument.text); }
  void add(const DefaultArg& argument) { add_argument(argument.name, argument.text); }
  void add(const ArgText& part) { add_line("Args", part.text); }
  void add(const Returns& part) { add_line("Returns", part.text); }
  void add(const Raises& part) { add_line("Raises", part.text); }
  void add(const Invalid& part) {
    add_line("Raises", std::string("InvalidArgumentError: ") + part.text);
  }
  void add(const Remark& part) { text_ += std::string("\n\n") + part.text; }
  // Arguments that are not explained, call guards.
  template <typename Extra>
  void add(const Extra& /*extra*/) {}

 private:
  void add_argument(const char* name, const char* text) {
    add_line("Args", std::string(name) + ": " + text);
  }
  void add_line(const std::string& section, const std::string& line) {
    if (section != section_) text_ += "\n\n" + section + ":";
    section_ = section;
    text_ += "\n    " + line;
  }

  std::string text_;
  std::string section_;
};

// `what` it does, its arguments, what it returns and raises.
template <typename... Extra>
std::string docstring(const std::string& what, const Extra&... extra) {
  Docstring doc(what);
  (doc.add(extra), ...);
  return doc.text();
}

// Defines a function of a module or class with the docstring of its arguments.
template <typename Scope, typename Function, typename... Extra>
void define(Scope& scope, const char* name, Function&& function, const std::string& what,
            const Extra&... extra) {
  scope.def(name, std::forward<Function>(function), extra..., docstring(what, extra...).c_str());
}

// Defines the constructor of a class, with the arguments of which the class's docstring tells.
template <typename Class, typename Init, typename... Extra>
void define_init(Class& cls, const std::string& what, Init&& init, const Extra&... extra) {
  cls.attr("__doc__") = docstring(what, extra...);
  cls.def(std::forward<Init>(init), extra...);
}

// The same with the class.
template <typename Type, typename... Bases, typename Init, typename... Extra>
py::classh<Type, Bases...> define_class(py::module_& m, const char* name, const std::string& what,
                                        Init&& init, const Extra&... extra) {
  py::classh<Type, Bases...> cls(m, name);
  define_init(cls, what, std::forward<Init>(init), extra...);
  return cls;
}

// -- what functions of tensors have in common
inline constexpr Arg kA{"a", "a Tensor of any shape."};
inline constexpr Arg kFloatingA{"a", "a Tensor of any shape and a floating dtype."};
inline constexpr Arg kInput{"input", "a Tensor of any shape and a floating dtype."};
inline constexpr Arg kAxis{"axis", "a negative one counts from the end (also called dim)."};
inline constexpr Arg kAxes{
    "axis", "one or several, negative ones count from the end; None: all (also called dim)."};
inline constexpr Arg kKeepdims{"keepdims", "keep them with extent 1 (also called keepdim)."};
inline constexpr Arg kGenerator{"generator", "None: this thread's."};
inline constexpr Arg kDtype{"dtype", "None: float32."};
inline constexpr Arg kDevice{"device",
                             "where its memory is: \"cuda:0\", \"cuda:1\", ...; None: \"cpu\"."};
inline constexpr Arg kBias{"bias", "whether there is one."};
inline constexpr Returns kNew{"A new Tensor."};
inline constexpr Invalid kNoAxis{"there is no such axis, or the dtype is not taken."};
inline constexpr Invalid kOtherDtype{"another dtype."};
inline constexpr Invalid kMisfit{"shapes or dtypes do not fit; names both."};

}  // namespace hvd::python

template <typename T>
struct pybind11::detail::process_attribute<
    T, std::enable_if_t<std::is_base_of_v<hvd::python::DocPart, T>>>
    : process_attribute_default<T> {};
template <>
struct pybind11::detail::process_attribute<hvd::python::Arg> : process_attribute<arg> {};
template <>
struct pybind11::detail::process_attribute<hvd::python::DefaultArg> : process_attribute<arg_v> {};
