#include "horovod_cpp/tensor/channels_last.h"

#include <numeric>

#include "horovod_cpp/tensor/copy.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/row_offsets.h"
#include "horovod_cpp/tensor/views.h"

namespace hvd {
namespace kernels {
Tensor rows_of(const Tensor& images) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(images.dim()), 0);
  std::iota(axes.begin() + 1, axes.end(), 2);
  axes.back() = 1;
  return permute(images, axes);
}

Tensor images_of(const Tensor& rows) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rows.dim()), 0);
  std::iota(axes.begin() + 1, axes.end(), 0);
  axes[1] = rows.dim() - 1;
  return permute(rows, axes);
}

bool is_channels_last(const Tensor& a) {
  return !a.is_contiguous() && a.dim() > 2 && rows_of(a).is_contiguous();
}

Tensor empty_channels_last(const Shape& shape, DType dtype) {
  Shape dense = shape;
  dense.erase(dense.begin() + 1);
  dense.push_back(shape[1]);
  return images_of(Tensor::empty(std::move(dense), dtype));
}

Tensor channels_last(const Tensor& a) {
  if (rows_of(a).is_contiguous()) return a;
  Tensor result = empty_channels_last(a.shape(), a.dtype());
  if (!a.is_contiguous() || (a.dtype() != DType::kF32 && a.dtype() != DType::kF64)) {
    copy_into(result, a);
    return result;
  }
  const std::int64_t channels = a.size(1);
  const std::int64_t image = a.size(0) == 0 ? 0 : a.numel() / a.size(0);
  if (image == 0) return result;
  const std::int64_t pixels = image / channels;
  const std::vector<std::int64_t> planes = row_offsets(channels, pixels);
  const std::vector<std::int64_t> rows = row_offsets(pixels, channels);
  dispatch_float(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < a.size(0); ++i) {
      isa::table().of<T>().transpose(channels, pixels, a.data<T>() + i * image, planes.data(),
                                     result.data<T>() + i * image, rows.data());
    }
  });
  return result;
}

}  // namespace kernels
}  // namespace hvd
