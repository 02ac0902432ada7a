#pragma once

#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd::kernels {

// `a` with `axis` moved to the end, contiguous: every row is what lies along the axis.
Tensor rows_along(const Tensor& a, std::int64_t axis);

// Over the axes of `mask`. Integers and bools add up in int64, half types in float32.
Tensor sum(const Tensor& a, const std::vector<bool>& mask, bool keepdim);
// Adds up what broadcasting from `shape` to a's shape repeated.
Tensor sum_to(const Tensor& a, const Shape& shape);
// Where along `axis` the first largest (or smallest) element is, or the first NaN; int64. Throws
// InvalidArgumentError when the axis is empty.
Tensor arg_extreme(const Tensor& a, std::int64_t axis, bool largest, bool keepdim,
                   const char* function);

// Over the last axis of a contiguous f32 or f64 tensor.
Tensor softmax(const Tensor& a);
Tensor softmax_grad(const Tensor& grad, const Tensor& result);
Tensor log_softmax(const Tensor& a);
Tensor log_softmax_grad(const Tensor& grad, const Tensor& result);

// -- functions of rows: `rows` is contiguous; its last axis is what they run along.

// Sums of the first 1, 2, ... elements (of the last ones if `reverse`). Integers and bools add up
// in int64, floats in double.
Tensor cumsum(const Tensor& rows, bool reverse);
// Product of each row, without the last axis. Integers and bools in int64, floats in double.
Tensor prod(const Tensor& rows);
// What each element of a float32 or float64 row is multiplied with in the row's product.
Tensor prod_of_others(const Tensor& rows);
// The stable order of each row, int64. A NaN counts as larger than any number.
Tensor argsort(const Tensor& rows, bool descending);
// How often 0, 1, 2, ... occur in a contiguous int64 tensor; int64, at least `length` of them.
Tensor bincount(const Tensor& values, std::int64_t length);

// Rows of a contiguous f32 or f64 tensor with mean 0 and deviation 1: `values` are
// (input - mean) * inverse with inverse = 1 / sqrt(variance + eps), f64 [rows].
struct Normalized {
  Tensor values, inverse;
};
Normalized normalize_rows(const Tensor& input, std::int64_t rows, double eps);
Tensor normalize_rows_grad(const Tensor& grad, const Tensor& values, const Tensor& inverse);

}  // namespace hvd::kernels
