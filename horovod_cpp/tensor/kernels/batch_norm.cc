#include "horovod_cpp/tensor/kernels/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/isa/table.h"
#include "horovod_cpp/tensor/kernels/copy.h"

namespace hvd {
namespace kernels {
namespace {

struct Extent {
  std::int64_t images, channels, pixels;

  std::int64_t at(std::int64_t image, std::int64_t channel) const {
    return (image * channels + channel) * pixels;
  }
  double count() const { return static_cast<double>(images * pixels); }
};

Extent extent_of(const Tensor& input) {
  return {input.size(0), input.size(1), input.size(2) * input.size(3)};
}

// Sum over the images of what `part(offset)` gives for a channel's plane.
template <typename Part>
double over_images(const Extent& extent, std::int64_t channel, Part part) {
  double total = 0.0;
  for (std::int64_t image = 0; image < extent.images; ++image) {
    total += part(extent.at(image, channel));
  }
  return total;
}

template <typename T>
void moments_of(const Extent& extent, const T* in, double* mean, double* variance) {
  const isa::Kernels<T>& kernels = isa::table().of<T>();
  for (std::int64_t c = 0; c < extent.channels; ++c) {
    mean[c] = over_images(extent, c,
                          [&](std::int64_t at) { return kernels.sum(in + at, extent.pixels); }) /
              extent.count();
    const T center = static_cast<T>(mean[c]);
    const double squares = over_images(extent, c, [&](std::int64_t at) {
      return kernels.sum_squares(in + at, center, extent.pixels);
    });
    const double shift = mean[c] - static_cast<double>(center);
    variance[c] = std::max(0.0, squares / extent.count() - shift * shift);
  }
}

template <typename T>
BatchNormGradients gradients(const Extent& extent, const Tensor& grad, const Tensor& input,
                             const Moments& moments, const Tensor& weight, double eps,
                             bool training) {
  const isa::Kernels<T>& kernels = isa::table().of<T>();
  const BatchNormGradients result = {Tensor::empty(input.shape(), input.dtype()),
                                     Tensor::empty(weight.shape(), input.dtype()),
                                     Tensor::empty(weight.shape(), input.dtype())};
  const T* g = grad.data<T>();
  const T* x = input.data<T>();
  T* dx = result.input.data<T>();
  for (std::int64_t c = 0; c < extent.channels; ++c) {
    const double mean = moments.mean.data<double>()[c];
    const double inverse = 1.0 / std::sqrt(moments.variance.data<double>()[c] + eps);
    const T center = static_cast<T>(mean);
    const double sum_g =
        over_images(extent, c, [&](std::int64_t at) { return kernels.sum(g + at, extent.pixels); });
    const double sum_gx = inverse * over_images(extent, c, [&](std::int64_t at) {
                            return kernels.dot(g + at, x + at, center, extent.pixels);
                          });
    result.bias.data<T>()[c] = static_cast<T>(sum_g);
    result.weight.data<T>()[c] = static_cast<T>(sum_gx);
    // dx = scale * (g - mean(g) - xhat * mean(g * xhat)), xhat = (x - mean) * inverse
    const double scale = static_cast<double>(weight.data<T>()[c]) * inverse;
    const double slope = training ? -scale * inverse * sum_gx / extent.count() : 0.0;
    const double shift = training ? -scale * sum_g / extent.count() - slope * mean : 0.0;
    for (std::int64_t image = 0; image < extent.images; ++image) {
      const std::int64_t at = extent.at(image, c);
      kernels.affine2(g + at, static_cast<T>(scale), x + at, static_cast<T>(slope),
                      static_cast<T>(shift), dx + at, extent.pixels);
    }
  }
  return result;
}

}  // namespace

Moments channel_moments(const Tensor& input) {
  const Extent extent = extent_of(input);
  const Moments result = {Tensor::empty({extent.channels}, DType::kF64),
                          Tensor::empty({extent.channels}, DType::kF64)};
  const Tensor in = contiguous(input);
  dispatch_float(input.dtype(), [&](auto tag) {
    moments_of(extent, in.data<typename decltype(tag)::type>(), result.mean.data<double>(),
               result.variance.data<double>());
  });
  return result;
}

Tensor batch_norm(const Tensor& input, const Moments& moments, const Tensor& weight,
                  const Tensor& bias, double eps) {
  const Extent extent = extent_of(input);
  const Tensor in = contiguous(input);
  const Tensor factor = contiguous(weight);
  const Tensor offset = contiguous(bias);
  Tensor result = Tensor::empty(input.shape(), input.dtype());
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t c = 0; c < extent.channels; ++c) {
      const double inverse = 1.0 / std::sqrt(moments.variance.data<double>()[c] + eps);
      const double scale = static_cast<double>(factor.data<T>()[c]) * inverse;
      const double shift =
          static_cast<double>(offset.data<T>()[c]) - moments.mean.data<double>()[c] * scale;
      for (std::int64_t image = 0; image < extent.images; ++image) {
        const std::int64_t at = extent.at(image, c);
        isa::table().of<T>().affine(in.data<T>() + at, static_cast<T>(scale), static_cast<T>(shift),
                                    result.data<T>() + at, extent.pixels);
      }
    }
  });
  return result;
}

BatchNormGradients batch_norm_grad(const Tensor& grad, const Tensor& input, const Moments& moments,
                                   const Tensor& weight, double eps, bool training) {
  return dispatch_float(input.dtype(), [&](auto tag) {
    return gradients<typename decltype(tag)::type>(extent_of(input), contiguous(grad),
                                                   contiguous(input), moments, contiguous(weight),
                                                   eps, training);
  });
}

}  // namespace kernels
}  // namespace hvd
