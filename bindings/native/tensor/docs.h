#pragma once

#include <initializer_list>
#include <string>

// What docstrings of functions of tensors have in common.
namespace hvd::python {

inline constexpr const char* kAnyShape = "a: a Tensor of any shape.";
inline constexpr const char* kAxes =
    "axis: one or several, negative ones count from the end; None: all (also called dim).";
inline constexpr const char* kKeepdims = "keepdims: keep them with extent 1 (also called keepdim).";
inline constexpr const char* kNoAxis =
    "InvalidArgumentError: there is no such axis, or the dtype is not taken.";
inline constexpr const char* kAxis = "axis: a negative one counts from the end (also called dim).";
inline constexpr const char* kWithoutAxes = "A new Tensor without these axes.";
inline constexpr const char* kFloating = "a: a Tensor of any shape and a floating dtype.";
inline constexpr const char* kSameShape = "A new Tensor of the same shape.";
inline constexpr const char* kIndex = "index: int64, as many axes.";
inline constexpr const char* kSource = "source: a Tensor of the shape of ``index``.";
inline constexpr const char* kBadIndex =
    "InvalidArgumentError: an index is out of range, or shapes do not fit.";
inline constexpr const char* kOutOfRange = "InvalidArgumentError: an index is out of range.";
inline constexpr const char* kNew = "A new Tensor.";
inline constexpr const char* kDescending = "descending: the largest first.";
inline constexpr const char* kOtherDtype = "InvalidArgumentError: another dtype.";
inline constexpr const char* kMisfit =
    "InvalidArgumentError: shapes or dtypes do not fit; names both.";
inline constexpr const char* kGenerator = "generator: None: this thread's.";
inline constexpr const char* kDtype = "dtype: None: float32.";
inline constexpr const char* kDevice =
    "device: where its memory is: \"cuda:0\", \"cuda:1\", ...; None: \"cpu\".";
inline constexpr const char* kNoMemory = "InvalidArgumentError: there is no memory for it.";

// In the form that all docstrings have; a class returns nothing.
inline std::string class_doc(const std::string& what, std::initializer_list<const char*> arguments,
                             const std::string& raises, const std::string& returns = "") {
  std::string doc = what + "\n\nArgs:";
  for (const char* argument : arguments) doc += std::string("\n    ") + argument;
  if (!returns.empty()) doc += "\n\nReturns:\n    " + returns;
  return doc + "\n\nRaises:\n    " + raises;
}

inline std::string tensor_doc(const std::string& what, std::initializer_list<const char*> arguments,
                              const std::string& returns, const std::string& raises) {
  return class_doc(what, arguments, raises, returns);
}

// Of one tensor, element by element.
inline std::string unary_doc(const std::string& what) {
  return tensor_doc(what, {kAnyShape}, "A new Tensor of that shape.",
                    "InvalidArgumentError: a dtype that this function does not take.");
}

// Of two, element by element.
inline std::string binary_doc(const std::string& what) {
  return tensor_doc(
      what, {"a: a Tensor.", "b: another one of its dtype; shapes broadcast."},
      "A new Tensor of the common shape.",
      "InvalidArgumentError: shapes do not broadcast, or dtypes differ or are not taken.");
}

}  // namespace hvd::python
