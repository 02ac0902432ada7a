#pragma once

#include <string>

// What docstrings of layers, losses and initialisers have in common. `more` are further lines below
// "Args:", each with its line break.
namespace hvd::python {

inline std::string activation_doc(const std::string& what, const std::string& more = "") {
  return what + R"(

Args:
    input: a Tensor of any shape and a floating dtype.
)" + more +
         R"(
Returns:
    A Tensor of the input's shape and dtype.

Raises:
    InvalidArgumentError: another dtype.)";
}

inline std::string pool_doc(const std::string& what, const std::string& more = "") {
  return what + R"(

Args:
    input: [n, c, h, w] of a floating dtype.
    kernel_size: of a window: a number of pixels, or (height, width).
    stride: pixels between windows; None: kernel_size.
    padding: pixels on each side, at most half a window.
    ceil_mode: also windows that begin in the image and end beyond it.
)" + more +
         R"(
Returns:
    [n, c, h', w'] of the input's dtype.

Raises:
    InvalidArgumentError: other shapes or dtypes, or options out of range.)";
}

inline std::string loss_doc(const std::string& what, const std::string& more = "") {
  return what + R"(

Args:
    input: a Tensor of any shape and a floating dtype.
    target: of the same shape and dtype.
    reduction: "mean" and "sum" make one number of all elements, "none" keeps them.
)" + more +
         R"(
Returns:
    A scalar; of the input's shape with "none".

Raises:
    InvalidArgumentError: shapes or dtypes differ, or an option is out of range.)";
}

inline std::string class_loss_doc(const std::string& what, const std::string& input,
                                  const std::string& more = "") {
  return what + R"(

Args:
    input: )" +
         input + R"( [n, classes, ...], or [classes].
    target: int64 [n, ...], or a scalar: the class of each.
    weight: [classes], the factor of each class; None: 1.
    ignore_index: examples with this target count nowhere.
    reduction: "mean" (weighted), "sum" or "none".
)" + more +
         R"(
Returns:
    A scalar; of the target's shape with "none".

Raises:
    InvalidArgumentError: shapes or dtypes do not fit, or a target is not a class.)";
}

inline std::string norm_doc(const std::string& what, const std::string& arguments) {
  return what + "\n\nArgs:\n" + arguments + R"(    eps: added to the variance.

Returns:
    A Tensor of the input's shape.

Raises:
    InvalidArgumentError: shapes or dtypes do not fit.)";
}

inline std::string fill_doc(const std::string& what, const std::string& more = "",
                            const std::string& shape = "any shape",
                            const std::string& errors = "another dtype, or a number out of range") {
  return what + "\n\nArgs:\n    tensor: " + shape + ", of a floating dtype.\n" + more + R"(
Returns:
    ``tensor``.

Raises:
    InvalidArgumentError: )" +
         errors + "; nothing is written then.";
}

// Of the loss classes.
inline std::string loss_class_doc(const std::string& what, const std::string& more = "") {
  return what + R"(

Args:
    reduction: "mean" and "sum" make one number of all elements, "none" keeps them.
)" + more +
         R"(
Called with input and target of one shape; raises InvalidArgumentError on others.)";
}

}  // namespace hvd::python
