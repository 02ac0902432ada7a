#include <algorithm>
#include <cmath>
#include <vector>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/kernels/images/images.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

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

// The gradient of an input that the moments did not come from. Without a term of the input, whose
// infinities times 0 would be NaN.
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

// For images of half types: calls body(first image, last image), see for_each_part().
template <typename Body>
void for_each_half_part(const Tensor& images, Body body) {
  if (is_half(images.dtype())) for_each_part(images, body);
}

double count_in(const Tensor& images) {
  return static_cast<double>(images.numel()) / static_cast<double>(images.size(1));
}

// Takes the moments of `count` further values into those of `so_far` (Chan, Golub, LeVeque:
// "Updating formulae and a pairwise algorithm for computing sample variances", 1982).
void join(const Moments& total, double so_far, const Moments& part, double count) {
  const double share = count / (so_far + count);
  for (std::int64_t c = 0; c < total.mean.numel(); ++c) {
    double& mean = total.mean.data<double>()[c];
    double& variance = total.variance.data<double>()[c];
    const double apart = part.mean.data<double>()[c] - mean;
    mean += apart * share;
    variance += (part.variance.data<double>()[c] - variance) * share +
                apart * apart * share * (1.0 - share);
  }
}

}  // namespace

Moments channel_moments(const Tensor& input) {
  const Moments result = {Tensor::zeros({input.size(1)}, DType::kF64),
                          Tensor::zeros({input.size(1)}, DType::kF64)};
  const Tensor in = channels_last(input);
  if (is_half(input.dtype())) {
    double so_far = 0.0;
    for_each_part(in, [&](std::int64_t first, std::int64_t last) {
      const Tensor part = widened_images(in, first, last);
      join(result, so_far, channel_moments(part), count_in(part));
      so_far += count_in(part);
    });
    return result;
  }
  dispatch_float(input.dtype(), [&](auto tag) {
    moments_of<typename decltype(tag)::type>(in, result.mean.data<double>(),
                                             result.variance.data<double>());
  });
  return result;
}

Tensor batch_norm(const Tensor& input, const Moments& moments, const Tensor& weight,
                  const Tensor& bias, double eps) {
  const Tensor in = channels_last(input);
  Tensor result = empty_channels_last(input.shape(), input.dtype());
  if (is_half(input.dtype())) {
    const Tensor scale = to(weight, DType::kF32);
    const Tensor shift = to(bias, DType::kF32);
    for_each_part(in, [&](std::int64_t first, std::int64_t last) {
      const Tensor part = widened_images(in, first, last);
      put_images(batch_norm(part, moments, scale, shift, eps), result, first);
    });
    return result;
  }
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Affine<T> affine = affine_of<T>(moments, contiguous(weight), contiguous(bias), eps);
    isa::table().of<T>().column_affine(rows_in(in), in.size(1), in.data<T>(), affine.scale.data(),
                                       affine.shift.data(), false, result.data<T>());
  });
  return result;
}

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
  const Tensor g = channels_last(grad);
  const Tensor x = channels_last(input);
  const Tensor factors = contiguous(weight);
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto size = static_cast<std::size_t>(input.size(1));
    std::vector<T> scale(size), slope(size), shift(size);
    const double* grads = sums.data<double>();
    const double* dots = grads + size;
    for (std::size_t c = 0; c < size; ++c) {
      const double inverse = 1.0 / std::sqrt(moments.variance.data<double>()[c] + eps);
      // dx = factor * (g - mean(g) - xhat * mean(g * xhat)), xhat = (x - mean) * inverse
      const double factor = static_cast<double>(factors.data<T>()[c]) * inverse;
      const double of_x = -factor * inverse * inverse * dots[c] / count;
      scale[c] = static_cast<T>(factor);
      slope[c] = static_cast<T>(of_x);
      shift[c] = static_cast<T>(-factor * grads[c] / count - of_x * moments.mean.data<double>()[c]);
    }
    isa::table().of<T>().column_affine2(rows_in(x), x.size(1), g.data<T>(), scale.data(),
                                        x.data<T>(), slope.data(), shift.data(), result.data<T>());
  });
  return result;
}

void move_running(const Tensor& running_mean, const Tensor& running_var, const Moments& now,
                  double count, double momentum) {
  const Tensor unbiased = clone(now.variance);
  scale(unbiased, count / (count - 1));
  scale(running_mean, 1.0 - momentum);
  scale(running_var, 1.0 - momentum);
  add_into(running_mean, to(now.mean, running_mean.dtype()), momentum);
  add_into(running_var, to(unbiased, running_var.dtype()), momentum);
}

BatchNormGradients batch_norm_grad(const Tensor& grad, const Tensor& input, const Moments& moments,
                                   const Tensor& weight, double eps, bool training) {
  const Tensor g = channels_last(grad);
  const Tensor in = channels_last(input);
  const bool half = is_half(input.dtype());
  const std::int64_t channels = input.size(1);
  const Tensor sums =
      half ? Tensor::zeros({2, channels}, DType::kF64) : batch_norm_sums(g, in, moments);
  for_each_half_part(in, [&](std::int64_t first, std::int64_t last) {
    const Tensor part =
        batch_norm_sums(widened_images(g, first, last), widened_images(in, first, last), moments);
    add_into(sums, part, 1.0);
  });
  const Tensor dots = Tensor::empty({channels}, DType::kF64);
  for (std::int64_t c = 0; c < channels; ++c) {
    dots.data<double>()[c] =
        sums.data<double>()[channels + c] / std::sqrt(moments.variance.data<double>()[c] + eps);
  }
  const Tensor scale = half ? to(weight, DType::kF32) : weight;
  const auto input_grad_of = [&](const Tensor& gradient, const auto& values) {
    if (training) {
      return batch_norm_input_grad(gradient, values(), moments, scale, eps, sums, count_in(input));
    }
    return dispatch_float(gradient.dtype(), [&](auto tag) {
      return given_grad<typename decltype(tag)::type>(gradient, moments, contiguous(scale), eps);
    });
  };
  const Tensor of_input = half ? empty_channels_last(input.shape(), input.dtype())
                               : input_grad_of(g, [&] { return in; });
  for_each_half_part(in, [&](std::int64_t first, std::int64_t last) {
    put_images(input_grad_of(widened_images(g, first, last),
                             [&] { return widened_images(in, first, last); }),
               of_input, first);
  });
  // No view of the sums, which a leaf's grad would keep whole.
  return {of_input, to(dots, weight.dtype()), to(clone(select(sums, 0, 0)), weight.dtype())};
}

}  // namespace hvd::kernels
