#include "horovod_cpp/tensor/creation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace kernels {
namespace {

// The bytes from its first element to behind its last one.
std::pair<const std::byte*, const std::byte*> extent(const Tensor& tensor) {
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype()));
  const auto* begin = static_cast<const std::byte*>(tensor.data());
  if (tensor.numel() == 0) return {begin, begin};
  std::int64_t last = 0;
  for (std::int64_t axis = 0; axis < tensor.dim(); ++axis) {
    last += (tensor.size(axis) - 1) * tensor.strides()[static_cast<std::size_t>(axis)];
  }
  return {begin, begin + (last + 1) * size};
}

bool apart(const Tensor& a, const Tensor& b) {
  const auto [a_begin, a_end] = extent(a);
  const auto [b_begin, b_end] = extent(b);
  return a_end <= b_begin || b_end <= a_begin;
}

}  // namespace

Tensor in_place_of(const Tensor& place, Shape shape, const Tensor& a, const Tensor& b) {
  const bool fits = place.defined() && place.shape() == shape && place.dtype() == a.dtype() &&
                    place.is_contiguous() && apart(place, a) && apart(place, b);
  return fits ? place : Tensor::empty(std::move(shape), a.dtype());
}

}  // namespace kernels
namespace {

// `count` float64 numbers, of which value(i) is the i-th, as `dtype`. The first and the last,
// between which the others are, fit or it throws.
template <typename Value>
Tensor numbers(std::int64_t count, DType dtype, const char* function, Value value) {
  if (count > 0) {
    kernels::require_fits(value(std::int64_t{0}), dtype, function);
    kernels::require_fits(value(count - 1), dtype, function);
  }
  Tensor wide = Tensor::empty({count}, DType::kF64);
  for (std::int64_t i = 0; i < count; ++i) wide.data<double>()[i] = value(i);
  return kernels::to(wide, dtype);
}

}  // namespace

Tensor arange(double begin, double end, double step, DType dtype) {
  const double count = std::ceil((end - begin) / step);
  if (!(count >= 0.0 && count < 0x1p53)) {
    throw InvalidArgumentError("arange: from " + std::to_string(begin) + " to " +
                               std::to_string(end) + " in steps of " + std::to_string(step));
  }
  return numbers(static_cast<std::int64_t>(count), dtype, "arange",
                 [=](std::int64_t i) { return begin + static_cast<double>(i) * step; });
}

Tensor linspace(double begin, double end, std::int64_t count, DType dtype) {
  if (count < 0) throw InvalidArgumentError("linspace: " + std::to_string(count) + " numbers");
  const double step = (end - begin) / static_cast<double>(std::max<std::int64_t>(count - 1, 1));
  return numbers(count, dtype, "linspace", [=](std::int64_t i) {
    if (i == 0 || i < count / 2) return begin + static_cast<double>(i) * step;
    return end - static_cast<double>(count - 1 - i) * step;
  });
}

Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype) {
  const std::int64_t width = columns == -1 ? rows : columns;
  Tensor result = Tensor::zeros({rows, width}, dtype);
  for (std::int64_t i = 0; i < std::min(rows, width); ++i) {
    kernels::fill(kernels::select(kernels::select(result, 0, i), 0, i), 1);
  }
  return result;
}

Tensor zeros_like(const Tensor& other) {
  return Tensor::zeros(other.shape(), other.dtype(), other.device());
}

Tensor ones_like(const Tensor& other) {
  return Tensor::ones(other.shape(), other.dtype(), other.device());
}

Tensor full_like(const Tensor& other, double value) {
  return Tensor::full(other.shape(), value, other.dtype(), other.device());
}

}  // namespace hvd
