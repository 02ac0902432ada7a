#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"

#include <algorithm>

#include "horovod_cpp/tensor/layout.h"

namespace hvd {
namespace kernels {
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

}  // namespace kernels
}  // namespace hvd
