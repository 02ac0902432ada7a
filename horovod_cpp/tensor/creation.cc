#include "horovod_cpp/tensor/creation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/tensor/kernels/copy.h"

namespace hvd {
namespace {

// The first and last value, between which the others are, fit or it throws.
Tensor from_values(const std::vector<double>& values, DType dtype, const char* function) {
  if (!values.empty()) {
    kernels::require_fits(values.front(), dtype, function);
    kernels::require_fits(values.back(), dtype, function);
  }
  return Tensor::from(values, {std::ssize(values)}).to(dtype);
}

}  // namespace

Tensor arange(double begin, double end, double step, DType dtype) {
  const double count = std::ceil((end - begin) / step);
  if (!(count >= 0.0 && count < 0x1p53)) {
    throw InvalidArgumentError("arange: from " + std::to_string(begin) + " to " +
                               std::to_string(end) + " in steps of " + std::to_string(step));
  }
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = begin + static_cast<double>(i) * step;
  return from_values(values, dtype, "arange");
}

Tensor linspace(double begin, double end, std::int64_t count, DType dtype) {
  if (count < 0) throw InvalidArgumentError("linspace: " + std::to_string(count) + " numbers");
  std::vector<double> values(static_cast<std::size_t>(count), begin);
  const double step = (end - begin) / static_cast<double>(std::max<std::int64_t>(count - 1, 1));
  for (std::int64_t i = 1; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = i < count / 2
                                              ? begin + static_cast<double>(i) * step
                                              : end - static_cast<double>(count - 1 - i) * step;
  }
  return from_values(values, dtype, "linspace");
}

Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype) {
  const std::int64_t width = columns == -1 ? rows : columns;
  Tensor result = Tensor::zeros({rows, width}, dtype);
  for (std::int64_t i = 0; i < std::min(rows, width); ++i)
    result.select(0, i).select(0, i).fill_(1);
  return result;
}

Tensor zeros_like(const Tensor& other) {
  return Tensor::zeros(other.shape(), other.dtype());
}

Tensor ones_like(const Tensor& other) {
  return Tensor::ones(other.shape(), other.dtype());
}

Tensor full_like(const Tensor& other, double value) {
  return Tensor::full(other.shape(), value, other.dtype());
}

}  // namespace hvd
