#pragma once

#include <cstdint>
#include <limits>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Images, windows, strides and paddings are not larger, so that arithmetic with them is exact.
inline constexpr std::int64_t kMostExtent = std::numeric_limits<std::int32_t>::max();

// An extent along the height and one along the width; one number stands for both.
struct IntPair {
  // Implicit: kernel_size = 3 means {3, 3}.
  IntPair(std::int64_t both) : height(both), width(both) {}
  IntPair(int both) : height(both), width(both) {}
  IntPair(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  friend bool operator==(const IntPair&, const IntPair&) = default;
  // Whether both are from `least` to kMostExtent.
  bool is_within(std::int64_t least) const {
    return height >= least && width >= least && height <= kMostExtent && width <= kMostExtent;
  }

  std::int64_t height;
  std::int64_t width;
};

// In the place of an extent of adaptive_avg_pool2d's output_size: the input's.
inline constexpr std::int64_t kInputExtent = std::numeric_limits<std::int64_t>::min();

namespace autograd {

// The gradient of a maximum over windows made of recorded functions: `gradient` [n, c, oh, ow] goes
// to the places `index` (integers of that shape, each within a plane of h * w) of zeros of `shape`.
Tensor recorded_max_pool_grad(const Tensor& gradient, const Tensor& index, const Shape& shape);

}  // namespace autograd
}  // namespace hvd
