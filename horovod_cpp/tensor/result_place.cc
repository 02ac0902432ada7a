#include "horovod_cpp/tensor/result_place.h"

#include <utility>

#include "core/base/dtype.h"

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
}  // namespace hvd
