#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

// values [n, c, oh, ow] and, int32, where in its plane of h * w each came from. The first of
// several largest elements wins, and so does a NaN.
struct Pooled {
  Tensor values, index;
};
// input [n, c, h, w], floating.
Pooled max_pool2d(const Tensor& input, std::int64_t kernel, std::int64_t stride);
Tensor max_pool2d_grad(const Tensor& grad, const Tensor& index, const Shape& input_shape);

}  // namespace kernels
}  // namespace hvd
