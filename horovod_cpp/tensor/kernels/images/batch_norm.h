#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

// Values per channel of [n, c, h, w].
inline std::int64_t rows_in(const Tensor& input) {
  return input.size(1) == 0 ? 0 : input.numel() / input.size(1);
}

// Statistics of each channel of [n, c, h, w], f64 [c]: the mean and the mean squared distance to
// it.
struct Moments {
  Tensor mean, variance;
};
Moments channel_moments(const Tensor& input);

// (input - mean) / sqrt(variance + eps) * weight + bias, channel by channel. mean and variance are
// f64 [c]; weight and bias have the input's dtype, or are float32 where that is a half type.
Tensor batch_norm(const Tensor& input, const Moments& moments, const Tensor& weight,
                  const Tensor& bias, double eps);

struct BatchNormGradients {
  Tensor input, weight, bias;
};
// `training`: the moments came from this input, so the gradient flows through them too.
BatchNormGradients batch_norm_grad(const Tensor& grad, const Tensor& input, const Moments& moments,
                                   const Tensor& weight, double eps, bool training);

// The input's of those if not `training`: it does not depend on the input. f32 or f64.
Tensor batch_norm_given_grad(const Tensor& grad, const Moments& moments, const Tensor& weight,
                             double eps);

}  // namespace kernels
}  // namespace hvd
