#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"

#include <numeric>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace kernels {

Tensor cast(const Tensor& a, DType dtype) {
  if (a.dtype() == dtype) return a;
  std::vector<std::int64_t> order(static_cast<std::size_t>(a.dim()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::int64_t axis) {
    return a.strides()[static_cast<std::size_t>(axis)];
  });
  const Tensor dense = permute(a, order);
  if (a.is_contiguous() || !dense.is_contiguous()) return to(a, dtype);
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return permute(to(dense, dtype), back);
}

void widen(const Tensor& a, std::int64_t first, float* out, std::int64_t n) {
  if (a.dtype() == DType::kBF16) {
    isa::table().bf16.widen(a.data<BFloat16>() + first, out, n);
    return;
  }
  const Float16* in = a.data<Float16>() + first;
  for (std::int64_t i = 0; i < n; ++i) out[i] = to_float(in[i]);
}

void narrow(const float* in, const Tensor& a, std::int64_t first, std::int64_t n) {
  if (a.dtype() == DType::kBF16) {
    isa::table().bf16.narrow(in, a.data<BFloat16>() + first, n);
    return;
  }
  Float16* out = a.data<Float16>() + first;
  for (std::int64_t i = 0; i < n; ++i) out[i] = to_float16(in[i]);
}

Tensor widened_images(const Tensor& images, std::int64_t first, std::int64_t last) {
  Shape shape = images.shape();
  shape[0] = last - first;
  const Tensor part = empty_channels_last(shape, DType::kF32);
  const std::int64_t image = images.numel() / images.size(0);
  widen(images, first * image, part.data<float>(), part.numel());
  return part;
}

void put_images(const Tensor& part, const Tensor& images, std::int64_t first) {
  narrow(part.data<float>(), images, first * (images.numel() / images.size(0)), part.numel());
}

}  // namespace kernels
}  // namespace hvd
