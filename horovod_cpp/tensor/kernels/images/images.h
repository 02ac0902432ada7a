#pragma once

#include <cstdint>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd::kernels {

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

// -- the gradient of batch_norm in two halves, for statistics of more rows than these

// f64 [2, c]: for each channel of [n, c, h, w] the sum of the gradient, and of the gradient times
// the input's distance from the mean. Zeros for an input without rows.
Tensor batch_norm_sums(const Tensor& grad, const Tensor& input, const Moments& moments);

// The input's gradient, where `sums` are those of all `count` values a channel that the moments
// came from.
Tensor batch_norm_input_grad(const Tensor& grad, const Tensor& input, const Moments& moments,
                             const Tensor& weight, double eps, const Tensor& sums, double count);

// values [n, c, oh, ow] and, int32, where in its plane of h * w each came from. The first of
// several largest elements wins, and so does a NaN.
struct Pooled {
  Tensor values, index;
};
// input [n, c, h, w], floating.
Pooled max_pool2d(const Tensor& input, std::int64_t kernel, std::int64_t stride);
Tensor max_pool2d_grad(const Tensor& grad, const Tensor& index, const Shape& input_shape);

// What one output position reads along one axis: the elements [begin, end). Means divide by the
// product of the two axes' extents, which may count padding.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t extent = 0;
};
using Spans = std::vector<Span>;

// Pooling of [n, c, h, w] (f32, f64) over the windows rows x columns -> [n, c, rows, columns].
// Windows are not empty, lie within h and w and may overlap.
struct Largest {
  Tensor values;
  Tensor index;  // int64: where in its plane each came from; the first of several, and a NaN, wins
};
Largest window_max(const Tensor& input, const Spans& rows, const Spans& columns);
Tensor window_max_grad(const Tensor& grad, const Tensor& index, const Shape& input_shape);

Tensor window_mean(const Tensor& input, const Spans& rows, const Spans& columns);
Tensor window_mean_grad(const Tensor& grad, const Spans& rows, const Spans& columns,
                        const Shape& input_shape);

// -- the above for images of float16 or bfloat16. Statistics, sums
// and the parameters of normalisation are float32 or wider; `weight` and `bias` may have either
// dtype, and their gradients have it too.

Moments half_channel_moments(const Tensor& input);
Tensor half_batch_norm(const Tensor& input, const Moments& moments, const Tensor& weight,
                       const Tensor& bias, double eps);
BatchNormGradients half_batch_norm_grad(const Tensor& grad, const Tensor& input,
                                        const Moments& moments, const Tensor& weight, double eps,
                                        bool training);

Pooled half_max_pool2d(const Tensor& input, std::int64_t kernel, std::int64_t stride);
Tensor half_max_pool2d_grad(const Tensor& grad, const Tensor& index, const Shape& input_shape);

}  // namespace hvd::kernels
