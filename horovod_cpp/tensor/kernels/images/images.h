#pragma once

#include <cstdint>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

// Images of float16 and bfloat16 are computed in float32 part by part, so that memory sees half
// types alone. Their statistics, sums and parameters of normalisation are float32 or wider;
// `weight` and `bias` may have either dtype, and their gradients have it too.
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

// running = (1 - momentum) * running + momentum * now, where `now` are the moments of `count`
// values per channel; the variance is unbiased.
void move_running(const Tensor& running_mean, const Tensor& running_var, const Moments& now,
                  double count, double momentum);

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

// -- the gradient of batch_norm in two halves, for statistics of more rows than these

// f64 [2, c]: for each channel of [n, c, h, w] the sum of the gradient, and of the gradient times
// the input's distance from the mean. Zeros for an input without rows.
Tensor batch_norm_sums(const Tensor& grad, const Tensor& input, const Moments& moments);

// The input's gradient, where `sums` are those of all `count` values per channel that the moments
// came from.
Tensor batch_norm_input_grad(const Tensor& grad, const Tensor& input, const Moments& moments,
                             const Tensor& weight, double eps, const Tensor& sums, double count);

// What one output position reads along one axis: the elements [begin, end). Means divide by the
// product of the two axes' extents, which may count padding.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t extent = 0;
};
using Spans = std::vector<Span>;

// Pooling of [n, c, h, w] over the windows rows x columns -> [n, c, rows, columns]. Windows are not
// empty, lie within h and w and may overlap.

// The largest values and, int32, where in its plane of h * w each came from. The first of several
// largest elements wins, but a NaN wins over any, the last of several. Channels last. Floating
// dtypes.
struct Pooled {
  Tensor values, index;
};
Pooled max_pool2d(const Tensor& input, const Spans& rows, const Spans& columns);
Tensor max_pool2d_grad(const Tensor& grad, const Tensor& index, const Shape& input_shape);

// f32, f64
Tensor window_mean(const Tensor& input, const Spans& rows, const Spans& columns);
Tensor window_mean_grad(const Tensor& grad, const Spans& rows, const Spans& columns,
                        const Shape& input_shape);

}  // namespace hvd::kernels
