#include <algorithm>
#include <cmath>
#include <vector>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/kernels/images/images.h"
#include "horovod_cpp/tensor/layout.h"

// On channels-last images: a channel is a column.
namespace hvd::kernels {
namespace {

template <typename T>
void moments_of(const Tensor& in, double* mean, double* variance) {
  const std::int64_t rows = rows_in(in);
  const T* x = in.data<T>();
  isa::table().of<T>().column_moments(rows, in.size(1), x, mean, variance);
  const auto count = static_cast<double>(rows);
  for (std::int64_t c = 0; c < in.size(1); ++c) {
    const double shift = mean[c] / count;
    mean[c] = static_cast<double>(x[c]) + shift;
    variance[c] = std::max(variance[c] / count - shift * shift, 0.0);  // in this order a NaN stays
  }
}

// y = x * scale + shift is what normalisation amounts to in each channel.
template <typename T>
struct Affine {
  std::vector<T> scale, shift;
};

template <typename T>
Affine<T> affine_of(const Moments& moments, const Tensor& weight, const Tensor& bias, double eps) {
  Affine<T> result;
  for (std::int64_t c = 0; c < weight.numel(); ++c) {
    const double inverse = 1.0 / std::sqrt(moments.variance.data<double>()[c] + eps);
    const double scale = static_cast<double>(weight.data<T>()[c]) * inverse;
    result.scale.push_back(static_cast<T>(scale));
    result.shift.push_back(static_cast<T>(static_cast<double>(bias.data<T>()[c]) -
                                          moments.mean.data<double>()[c] * scale));
  }
  return result;
}

// Without a term of the input, whose infinities times 0 would be NaN.
template <typename T>
Tensor given_grad(const Tensor& grad, const Moments& moments, const Tensor& weight, double eps) {
  std::vector<T> scale;
  for (std::int64_t c = 0; c < weight.numel(); ++c) {
    scale.push_back(static_cast<T>(static_cast<double>(weight.data<T>()[c]) /
                                   std::sqrt(moments.variance.data<double>()[c] + eps)));
  }
  const std::vector<T> shift(scale.size());
  Tensor result = empty_channels_last(grad.shape(), grad.dtype());
  isa::table().of<T>().column_affine(rows_in(grad), grad.size(1), grad.data<T>(), scale.data(),
                                     shift.data(), false, result.data<T>());
  return result;
}

template <typename T>
BatchNormGradients gradients(const Tensor& grad, const Tensor& input, const Moments& moments,
                             const Tensor& weight, double eps, bool training) {
  const isa::Kernels<T>& kernels = isa::table().of<T>();
  const std::int64_t channels = input.size(1);
  const std::int64_t rows = rows_in(input);
  const auto count = static_cast<double>(rows);
  const BatchNormGradients result = {training ? empty_channels_last(input.shape(), input.dtype())
                                              : given_grad<T>(grad, moments, weight, eps),
                                     Tensor::empty(weight.shape(), input.dtype()),
                                     Tensor::empty(weight.shape(), input.dtype())};
  const auto size = static_cast<std::size_t>(channels);
  std::vector<T> center(size), scale(size), slope(size), shift(size);
  std::vector<double> sums(size), dots(size);
  for (std::size_t c = 0; c < size; ++c) {
    center[c] = static_cast<T>(moments.mean.data<double>()[c]);
  }
  kernels.column_dots(rows, channels, grad.data<T>(), input.data<T>(), center.data(), sums.data(),
                      dots.data());
  for (std::size_t c = 0; c < size; ++c) {
    const double mean = moments.mean.data<double>()[c];
    const double inverse = 1.0 / std::sqrt(moments.variance.data<double>()[c] + eps);
    const double sum_gx = inverse * dots[c];
    result.bias.data<T>()[c] = static_cast<T>(sums[c]);
    result.weight.data<T>()[c] = static_cast<T>(sum_gx);
    // dx = factor * (g - mean(g) - xhat * mean(g * xhat)), xhat = (x - mean) * inverse
    const double factor = static_cast<double>(weight.data<T>()[c]) * inverse;
    const double of_x = -factor * inverse * sum_gx / count;
    scale[c] = static_cast<T>(factor);
    slope[c] = static_cast<T>(of_x);
    shift[c] = static_cast<T>(-factor * sums[c] / count - of_x * mean);
  }
  if (!training) return result;
  kernels.column_affine2(rows, channels, grad.data<T>(), scale.data(), input.data<T>(),
                         slope.data(), shift.data(), result.input.data<T>());
  return result;
}

}  // namespace

Moments channel_moments(const Tensor& input) {
  if (is_half(input.dtype())) return half_channel_moments(input);
  const Moments result = {Tensor::empty({input.size(1)}, DType::kF64),
                          Tensor::empty({input.size(1)}, DType::kF64)};
  const Tensor in = channels_last(input);
  dispatch_float(input.dtype(), [&](auto tag) {
    moments_of<typename decltype(tag)::type>(in, result.mean.data<double>(),
                                             result.variance.data<double>());
  });
  return result;
}

Tensor batch_norm(const Tensor& input, const Moments& moments, const Tensor& weight,
                  const Tensor& bias, double eps) {
  if (is_half(input.dtype())) return half_batch_norm(input, moments, weight, bias, eps);
  const Tensor in = channels_last(input);
  Tensor result = empty_channels_last(input.shape(), input.dtype());
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Affine<T> affine = affine_of<T>(moments, contiguous(weight), contiguous(bias), eps);
    isa::table().of<T>().column_affine(rows_in(in), in.size(1), in.data<T>(), affine.scale.data(),
                                       affine.shift.data(), false, result.data<T>());
  });
  return result;
}

BatchNormGradients batch_norm_grad(const Tensor& grad, const Tensor& input, const Moments& moments,
                                   const Tensor& weight, double eps, bool training) {
  if (is_half(input.dtype())) {
    return half_batch_norm_grad(grad, input, moments, weight, eps, training);
  }
  return dispatch_float(input.dtype(), [&](auto tag) {
    return gradients<typename decltype(tag)::type>(channels_last(grad), channels_last(input),
                                                   moments, contiguous(weight), eps, training);
  });
}

Tensor batch_norm_given_grad(const Tensor& grad, const Moments& moments, const Tensor& weight,
                             double eps) {
  return dispatch_float(grad.dtype(), [&](auto tag) {
    return given_grad<typename decltype(tag)::type>(channels_last(grad), moments,
                                                    contiguous(weight), eps);
  });
}

namespace {

template <typename T>
void input_grad(const Tensor& grad, const Tensor& input, const Moments& moments,
                const Tensor& weight, double eps, const Tensor& sums, double count,
                const Tensor& result) {
  const std::int64_t channels = input.size(1);
  const auto size = static_cast<std::size_t>(channels);
  std::vector<T> scale(size), slope(size), shift(size);
  const double* grads = sums.data<double>();
  const double* dots = grads + channels;
  for (std::size_t c = 0; c < size; ++c) {
    const double inverse = 1.0 / std::sqrt(moments.variance.data<double>()[c] + eps);
    // dx = factor * (g - mean(g) - xhat * mean(g * xhat)), xhat = (x - mean) * inverse
    const double factor = static_cast<double>(weight.data<T>()[c]) * inverse;
    const double of_x = -factor * inverse * inverse * dots[c] / count;
    scale[c] = static_cast<T>(factor);
    slope[c] = static_cast<T>(of_x);
    shift[c] = static_cast<T>(-factor * grads[c] / count - of_x * moments.mean.data<double>()[c]);
  }
  isa::table().of<T>().column_affine2(rows_in(input), channels, grad.data<T>(), scale.data(),
                                      input.data<T>(), slope.data(), shift.data(),
                                      result.data<T>());
}

}  // namespace

Tensor batch_norm_sums(const Tensor& grad, const Tensor& input, const Moments& moments) {
  const Tensor g = channels_last(grad);
  const Tensor x = channels_last(input);
  const std::int64_t channels = input.size(1);
  Tensor sums = Tensor::zeros({2, channels}, DType::kF64);
  if (input.numel() == 0) return sums;
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> center(static_cast<std::size_t>(channels));
    for (std::size_t c = 0; c < center.size(); ++c) {
      center[c] = static_cast<T>(moments.mean.data<double>()[c]);
    }
    double* first = sums.data<double>();
    isa::table().of<T>().column_dots(rows_in(x), channels, g.data<T>(), x.data<T>(), center.data(),
                                     first, first + channels);
  });
  return sums;
}

Tensor batch_norm_input_grad(const Tensor& grad, const Tensor& input, const Moments& moments,
                             const Tensor& weight, double eps, const Tensor& sums, double count) {
  Tensor result = empty_channels_last(input.shape(), input.dtype());
  if (input.numel() == 0) return result;
  dispatch_float(input.dtype(), [&](auto tag) {
    input_grad<typename decltype(tag)::type>(channels_last(grad), channels_last(input), moments,
                                             contiguous(weight), eps, sums, count, result);
  });
  return result;
}

}  // namespace hvd::kernels
