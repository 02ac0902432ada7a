#include "horovod_cpp/tensor/kernels/pooling.h"

#include <limits>

#include "core/base/status.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/isa/table.h"
#include "horovod_cpp/tensor/kernels/copy.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace kernels {

Pooled max_pool2d(const Tensor& input, std::int64_t kernel, std::int64_t stride) {
  shapes::require_dim(input, 4, "max_pool2d", "input [n, c, h, w]");
  shapes::require_float(input, "max_pool2d");
  const std::int64_t height = input.size(2);
  const std::int64_t width = input.size(3);
  if (kernel < 1 || stride < 1 || kernel > height || kernel > width ||
      height * width > std::numeric_limits<std::int32_t>::max()) {
    throw InvalidArgumentError("max_pool2d: input " + to_string(input.shape()) + ", kernel " +
                               std::to_string(kernel) + ", stride " + std::to_string(stride));
  }
  const std::int64_t planes = input.size(0) * input.size(1);
  const isa::Window window = {planes,
                              height,
                              width,
                              kernel,
                              kernel,
                              stride,
                              0,
                              (height - kernel) / stride + 1,
                              (width - kernel) / stride + 1};
  const Shape shape = {input.size(0), input.size(1), window.out_h, window.out_w};
  const Pooled result = {Tensor::empty(shape, input.dtype()), Tensor::empty(shape, DType::kI32)};
  const Tensor in = contiguous(input);
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    isa::table().of<T>().max_pool(window, in.data<T>(), result.values.data<T>(),
                                  result.index.data<std::int32_t>());
  });
  return result;
}

Tensor max_pool2d_grad(const Tensor& grad, const Tensor& index, const Shape& input_shape) {
  const Tensor g = contiguous(grad);
  Tensor result = Tensor::zeros(input_shape, grad.dtype());
  const std::int64_t planes = input_shape[0] * input_shape[1];
  const std::int64_t pixels = input_shape[2] * input_shape[3];
  const std::int64_t outputs = planes == 0 ? 0 : grad.numel() / planes;
  dispatch_float(grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = g.data<T>();
    const std::int32_t* at = index.data<std::int32_t>();
    T* plane = result.data<T>();
    for (std::int64_t p = 0; p < planes; ++p, plane += pixels) {
      for (std::int64_t i = 0; i < outputs; ++i) plane[*at++] += *in++;
    }
  });
  return result;
}

}  // namespace kernels
}  // namespace hvd
