#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

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

}  // namespace kernels
}  // namespace hvd
