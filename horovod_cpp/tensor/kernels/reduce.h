#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

// Over the axes of `mask`. Integers add up in int64, half types in float32.
Tensor sum(const Tensor& a, const std::vector<bool>& mask, bool keepdim);
// Adds up what broadcasting from `shape` to a's shape repeated.
Tensor sum_to(const Tensor& a, const Shape& shape);
// The largest element as a scalar; a NaN wins. Throws InvalidArgumentError when there is none.
Tensor max(const Tensor& a);
// Flat row-major index of the first largest element (or the first NaN).
std::int64_t argmax_flat(const Tensor& a);
Tensor argmax(const Tensor& a, std::int64_t axis);

// Over the last axis of a contiguous f32 or f64 tensor.
Tensor softmax(const Tensor& a);
Tensor softmax_grad(const Tensor& grad, const Tensor& result);
Tensor log_softmax(const Tensor& a);
Tensor log_softmax_grad(const Tensor& grad, const Tensor& result);

}  // namespace kernels
}  // namespace hvd
