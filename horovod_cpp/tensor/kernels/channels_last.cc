#include "horovod_cpp/tensor/kernels/channels_last.h"

#include <numeric>

#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/isa/table.h"
#include "horovod_cpp/tensor/kernels/copy.h"
#include "horovod_cpp/tensor/kernels/views.h"

namespace hvd {
namespace kernels {
namespace {

// Axes of [n, c, ...] in the order [n, ..., c], and back.
std::vector<std::int64_t> to_last(std::int64_t dim) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(dim));
  std::iota(axes.begin() + 1, axes.end(), 2);
  axes.front() = 0;
  axes.back() = 1;
  return axes;
}

std::vector<std::int64_t> from_last(std::int64_t dim) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(dim));
  std::iota(axes.begin() + 1, axes.end(), 0);
  axes[0] = 0;
  axes[1] = dim - 1;
  return axes;
}

}  // namespace

bool is_channels_last(const Tensor& a) {
  return a.dim() > 2 && permute(a, to_last(a.dim())).is_contiguous();
}

Tensor empty_channels_last(const Shape& shape, DType dtype) {
  Shape dense = shape;
  dense.erase(dense.begin() + 1);
  dense.push_back(shape[1]);
  return permute(Tensor::empty(std::move(dense), dtype),
                 from_last(static_cast<std::int64_t>(shape.size())));
}

Tensor channels_last(const Tensor& a) {
  if (is_channels_last(a)) return a;
  Tensor result = empty_channels_last(a.shape(), a.dtype());
  if (!a.is_contiguous() || (a.dtype() != DType::kF32 && a.dtype() != DType::kF64)) {
    copy_into(result, a);
    return result;
  }
  const std::int64_t channels = a.size(1);
  const std::int64_t image = a.size(0) == 0 ? 0 : a.numel() / a.size(0);
  dispatch_float(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < a.size(0) && image > 0; ++i) {
      isa::table().of<T>().transpose(channels, image / channels, a.data<T>() + i * image,
                                     image / channels, result.data<T>() + i * image, channels);
    }
  });
  return result;
}

}  // namespace kernels
}  // namespace hvd
