#pragma once

#include "horovod_cpp/tensor/kernels/images/batch_norm.h"
#include "horovod_cpp/tensor/kernels/images/pooling.h"

// The functions of batch_norm.h and pooling.h for images of float16 or bfloat16. Statistics, sums
// and the parameters of normalisation are float32 or wider; `weight` and `bias` may have either
// dtype, and their gradients have it too.
namespace hvd {
namespace kernels {

Moments half_channel_moments(const Tensor& input);
Tensor half_batch_norm(const Tensor& input, const Moments& moments, const Tensor& weight,
                       const Tensor& bias, double eps);
BatchNormGradients half_batch_norm_grad(const Tensor& grad, const Tensor& input,
                                        const Moments& moments, const Tensor& weight, double eps,
                                        bool training);

Pooled half_max_pool2d(const Tensor& input, std::int64_t kernel, std::int64_t stride);
Tensor half_max_pool2d_grad(const Tensor& grad, const Tensor& index, const Shape& input_shape);

}  // namespace kernels
}  // namespace hvd
