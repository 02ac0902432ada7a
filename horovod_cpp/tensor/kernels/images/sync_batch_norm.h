#pragma once

#include "horovod_cpp/tensor/kernels/images/batch_norm.h"

// The gradient of batch_norm in two halves, for statistics of more rows than these.
namespace hvd {
namespace kernels {

// f64 [2, c]: for each channel of [n, c, h, w] the sum of the gradient, and of the gradient times
// the input's distance from the mean. Zeros for an input without rows.
Tensor batch_norm_sums(const Tensor& grad, const Tensor& input, const Moments& moments);

// The input's gradient, where `sums` are those of all `count` values a channel that the moments
// came from.
Tensor batch_norm_input_grad(const Tensor& grad, const Tensor& input, const Moments& moments,
                             const Tensor& weight, double eps, const Tensor& sums, double count);

}  // namespace kernels
}  // namespace hvd
