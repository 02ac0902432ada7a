#include "horovod_cpp/tensor/kernels/images/images.h"

#include <cmath>
#include <vector>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd {
namespace kernels {
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

}  // namespace kernels
}  // namespace hvd
