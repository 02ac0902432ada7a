#include "horovod_cpp/tensor/kernels/reduce/reduce.h"

#include <algorithm>
#include <cmath>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/dispatch.h"

namespace hvd {
namespace kernels {

Normalized normalize_rows(const Tensor& input, std::int64_t rows, double eps) {
  const Normalized result = {Tensor::empty(input.shape(), input.dtype()),
                             Tensor::empty({rows}, DType::kF64)};
  if (input.numel() == 0) return result;
  const std::int64_t columns = input.numel() / rows;
  const auto count = static_cast<double>(columns);
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const isa::Kernels<T>& kernels = isa::table().of<T>();
    const T* in = input.data<T>();
    T* out = result.values.data<T>();
    for (std::int64_t row = 0; row < rows; ++row, in += columns, out += columns) {
      const double mean = kernels.sum(in, columns) / count;
      const T center = static_cast<T>(mean);
      const double shift = mean - static_cast<double>(center);
      const double variance =  // in this order a NaN stays
          std::max(kernels.sum_squares(in, center, columns) / count - shift * shift, 0.0);
      const double inverse = 1.0 / std::sqrt(variance + eps);
      result.inverse.data<double>()[row] = inverse;
      kernels.affine(in, static_cast<T>(inverse), static_cast<T>(-mean * inverse), out, columns);
    }
  });
  return result;
}

Tensor normalize_rows_grad(const Tensor& grad, const Tensor& values, const Tensor& inverse) {
  Tensor result = Tensor::empty(grad.shape(), grad.dtype());
  if (grad.numel() == 0) return result;
  const std::int64_t rows = inverse.numel();
  const std::int64_t columns = grad.numel() / rows;
  dispatch_float(grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const isa::Kernels<T>& kernels = isa::table().of<T>();
    const T* g = grad.data<T>();
    const T* y = values.data<T>();
    T* out = result.data<T>();
    for (std::int64_t row = 0; row < rows; ++row, g += columns, y += columns, out += columns) {
      // inverse * (g - mean(g) - y * mean(g * y))
      const double scale = inverse.data<double>()[row];
      const double share = scale / static_cast<double>(columns);
      kernels.affine2(g, static_cast<T>(scale), y,
                      static_cast<T>(-share * kernels.dot(g, y, T(0), columns)),
                      static_cast<T>(-share * kernels.sum(g, columns)), out, columns);
    }
  });
  return result;
}

}  // namespace kernels
}  // namespace hvd
