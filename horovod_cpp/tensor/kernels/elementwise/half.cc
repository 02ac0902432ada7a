#include <algorithm>
#include <numeric>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd::kernels {

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

namespace {

constexpr std::int64_t kChunk = 2048;  // floats that stay in the first-level cache

template <typename Body>
void for_each_chunk(std::int64_t n, Body body) {
  for (std::int64_t at = 0; at < n; at += kChunk) body(at, std::min(kChunk, n - at));
}

}  // namespace

Tensor half_unary(isa::Unary op, const Tensor& a) {
  const Tensor in = contiguous(a);
  Tensor result = Tensor::empty(a.shape(), a.dtype());
  alignas(64) float chunk[kChunk];
  for_each_chunk(in.numel(), [&](std::int64_t at, std::int64_t n) {
    widen(in, at, chunk, n);
    isa::table().f32.unary(op, chunk, chunk, n);
    narrow(chunk, result, at, n);
  });
  return result;
}

Tensor half_binary(isa::Binary op, const Tensor& a, const Tensor& b, const char* function) {
  if (a.shape() != b.shape() || !a.is_contiguous() || !b.is_contiguous()) {
    return cast(binary(op, cast(a, DType::kF32), cast(b, DType::kF32), function), a.dtype());
  }
  Tensor result = Tensor::empty(a.shape(), a.dtype());
  alignas(64) float left[kChunk];
  alignas(64) float right[kChunk];
  for_each_chunk(a.numel(), [&](std::int64_t at, std::int64_t n) {
    widen(a, at, left, n);
    widen(b, at, right, n);
    isa::table().f32.binary(op, left, 1, right, 1, left, n);
    narrow(left, result, at, n);
  });
  return result;
}

}  // namespace hvd::kernels
