#include "horovod_cpp/tensor/kernels/images/images.h"

#include <algorithm>
#include <cmath>

#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd::kernels {
namespace {

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

Moments half_channel_moments(const Tensor& input) {
  const Moments total = {Tensor::zeros({input.size(1)}, DType::kF64),
                         Tensor::zeros({input.size(1)}, DType::kF64)};
  const Tensor in = channels_last(input);
  double so_far = 0.0;
  for_each_part(in, [&](std::int64_t first, std::int64_t last) {
    const Tensor part = widened_images(in, first, last);
    join(total, so_far, channel_moments(part), count_in(part));
    so_far += count_in(part);
  });
  return total;
}

Tensor half_batch_norm(const Tensor& input, const Moments& moments, const Tensor& weight,
                       const Tensor& bias, double eps) {
  const Tensor in = channels_last(input);
  const Tensor scale = to(weight, DType::kF32);
  const Tensor shift = to(bias, DType::kF32);
  Tensor result = empty_channels_last(input.shape(), input.dtype());
  for_each_part(in, [&](std::int64_t first, std::int64_t last) {
    put_images(batch_norm(widened_images(in, first, last), moments, scale, shift, eps), result,
               first);
  });
  return result;
}

BatchNormGradients half_batch_norm_grad(const Tensor& grad, const Tensor& input,
                                        const Moments& moments, const Tensor& weight, double eps,
                                        bool training) {
  const Tensor g = channels_last(grad);
  const Tensor in = channels_last(input);
  const std::int64_t channels = input.size(1);
  const Tensor sums = Tensor::zeros({2, channels}, DType::kF64);
  for_each_part(in, [&](std::int64_t first, std::int64_t last) {
    const Tensor part =
        batch_norm_sums(widened_images(g, first, last), widened_images(in, first, last), moments);
    for (std::int64_t i = 0; i < sums.numel(); ++i)
      sums.data<double>()[i] += part.data<double>()[i];
  });
  const Tensor dots = Tensor::empty({channels}, DType::kF64);
  for (std::int64_t c = 0; c < channels; ++c) {
    dots.data<double>()[c] =
        sums.data<double>()[channels + c] / std::sqrt(moments.variance.data<double>()[c] + eps);
  }
  const BatchNormGradients result = {empty_channels_last(input.shape(), input.dtype()),
                                     to(dots, weight.dtype()),
                                     to(sums.select(0, 0), weight.dtype())};
  const Tensor scale = to(weight, DType::kF32);
  const double count = count_in(input);
  for_each_part(in, [&](std::int64_t first, std::int64_t last) {
    const Tensor part = widened_images(g, first, last);
    put_images(training ? batch_norm_input_grad(part, widened_images(in, first, last), moments,
                                                scale, eps, sums, count)
                        : batch_norm_given_grad(part, moments, scale, eps),
               result.input, first);
  });
  return result;
}

Pooled half_max_pool2d(const Tensor& input, std::int64_t kernel, std::int64_t stride) {
  const Tensor in = channels_last(input);
  const Shape shape = {input.size(0), input.size(1), (input.size(2) - kernel) / stride + 1,
                       (input.size(3) - kernel) / stride + 1};
  const Pooled result = {empty_channels_last(shape, input.dtype()),
                         empty_channels_last(shape, DType::kI32)};
  for_each_part(in, [&](std::int64_t first, std::int64_t last) {
    const Pooled part = max_pool2d(widened_images(in, first, last), kernel, stride);
    put_images(part.values, result.values, first);
    std::copy_n(part.index.data<std::int32_t>(), part.index.numel(),
                result.index.data<std::int32_t>() + first * (result.index.numel() / shape[0]));
  });
  return result;
}

Tensor half_max_pool2d_grad(const Tensor& grad, const Tensor& index, const Shape& input_shape) {
  const Tensor g = channels_last(grad);
  Tensor result = empty_channels_last(input_shape, grad.dtype());
  const std::int64_t image = grad.size(0) == 0 ? 0 : grad.numel() / grad.size(0);
  for_each_part(result, [&](std::int64_t first, std::int64_t last) {
    Shape shape = input_shape;
    shape[0] = last - first;
    const Tensor at = make_view(index, {(last - first) * image}, {1}, first * image);
    put_images(max_pool2d_grad(widened_images(g, first, last), at, shape), result, first);
  });
  return result;
}

}  // namespace hvd::kernels
