#include "horovod_cpp/tensor/kernels/images/images.h"

#include <limits>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd::kernels {
namespace {

// The pixels of each window, windows in row-major order.
std::vector<std::int32_t> windows(std::int64_t height, std::int64_t width, std::int64_t kernel,
                                  std::int64_t stride) {
  std::vector<std::int32_t> pixels;
  for (std::int64_t y = 0; y + kernel <= height; y += stride) {
    for (std::int64_t x = 0; x + kernel <= width; x += stride) {
      for (std::int64_t i = 0; i < kernel * kernel; ++i) {
        pixels.push_back(static_cast<std::int32_t>((y + i / kernel) * width + x + i % kernel));
      }
    }
  }
  return pixels;
}

}  // namespace

Pooled max_pool2d(const Tensor& input, std::int64_t kernel, std::int64_t stride) {
  shapes::require_dim(input, 4, "max_pool2d", "input [n, c, h, w]");
  if (!is_half(input.dtype())) shapes::require_float(input, "max_pool2d");
  const std::int64_t channels = input.size(1);
  const std::int64_t height = input.size(2);
  const std::int64_t width = input.size(3);
  if (kernel < 1 || stride < 1 || kernel > height || kernel > width ||
      height * width > std::numeric_limits<std::int32_t>::max()) {
    throw InvalidArgumentError("max_pool2d: input " + to_string(input.shape()) + ", kernel " +
                               std::to_string(kernel) + ", stride " + std::to_string(stride));
  }
  if (is_half(input.dtype())) return half_max_pool2d(input, kernel, stride);
  const Shape shape = {input.size(0), channels, (height - kernel) / stride + 1,
                       (width - kernel) / stride + 1};
  const Pooled result = {empty_channels_last(shape, input.dtype()),
                         empty_channels_last(shape, DType::kI32)};
  const Tensor in = channels_last(input);
  const std::vector<std::int32_t> pixels = windows(height, width, kernel, stride);
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = result.values.data<T>();
    std::int32_t* index = result.index.data<std::int32_t>();
    for (std::int64_t image = 0; image < input.size(0); ++image) {
      const T* from = in.data<T>() + image * height * width * channels;
      for (std::size_t w = 0; w < pixels.size(); w += static_cast<std::size_t>(kernel * kernel)) {
        isa::table().of<T>().max_of_rows(from, channels, &pixels[w], kernel * kernel, out, index);
        out += channels;
        index += channels;
      }
    }
  });
  return result;
}

Tensor max_pool2d_grad(const Tensor& grad, const Tensor& index, const Shape& input_shape) {
  if (is_half(grad.dtype())) return half_max_pool2d_grad(grad, index, input_shape);
  const Tensor g = channels_last(grad);
  Tensor result = empty_channels_last(input_shape, grad.dtype());
  const std::int64_t channels = input_shape[1];
  const std::int64_t outputs = grad.size(2) * grad.size(3);
  dispatch_float(grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = g.data<T>();
    const std::int32_t* at = index.data<std::int32_t>();
    T* to = result.data<T>();
    std::fill_n(to, result.numel(), T(0));
    for (std::int64_t image = 0; image < input_shape[0]; ++image) {
      for (std::int64_t i = 0; i < outputs; ++i, in += channels, at += channels) {
        for (std::int64_t c = 0; c < channels; ++c) to[at[c] * channels + c] += in[c];
      }
      to += input_shape[2] * input_shape[3] * channels;
    }
  });
  return result;
}

}  // namespace hvd::kernels
