#pragma once

#include <algorithm>

#include "horovod_cpp/tensor/tensor.h"

// float16 and bfloat16 are stored; arithmetic on them is done in float32. What passes through the
// cache anyway is widened part by part, so that memory sees half types alone.
namespace hvd {
namespace kernels {

// `a` itself when it has this dtype, else a new tensor; axes of a dense one keep their order in
// memory (channels-last images, transposed matrices).
Tensor cast(const Tensor& a, DType dtype);

// Elements [first, first + n) of a half tensor's memory as floats, and back.
void widen(const Tensor& a, std::int64_t first, float* out, std::int64_t n);
void narrow(const float* in, const Tensor& a, std::int64_t first, std::int64_t n);

// Images [first, last) of dense channels-last ones, widened, and what puts them back.
Tensor widened_images(const Tensor& images, std::int64_t first, std::int64_t last);
void put_images(const Tensor& part, const Tensor& images, std::int64_t first);

// Calls body(first image, last image) so that the parts of [n, c, ...] fit the cache as float32.
template <typename Body>
void for_each_part(const Tensor& images, Body body) {
  constexpr std::int64_t kElements = 1 << 16;
  const std::int64_t count = images.size(0);
  if (images.numel() == 0) return;
  const std::int64_t step = std::max<std::int64_t>(1, kElements / (images.numel() / count));
  for (std::int64_t first = 0; first < count; first += step) {
    body(first, std::min(first + step, count));
  }
}

}  // namespace kernels
}  // namespace hvd
