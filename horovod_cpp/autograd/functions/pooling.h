#pragma once

#include <cstdint>

#include "horovod_cpp/autograd/functions/int_pair.h"
#include "horovod_cpp/tensor/tensor.h"

// Pooling over windows of [n, c, h, w] of a floating dtype. Errors are InvalidArgumentError naming
// the function, the input's shape and the argument.
namespace hvd {

// oh = (h + 2 padding - kernel) / stride + 1, rounded down, or up with ceil_mode (a window that
// would start beyond the input and its first padding is left out). Padding is at most half of the
// kernel.
struct Pool2dOptions {
  IntPair kernel_size = 1;
  IntPair stride = 0;  // 0: the kernel's
  IntPair padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // means only: whether padding counts in the divisor
};

// The largest of each window, padding left aside; the first of several gets the gradient, a NaN
// wins.
Tensor max_pool2d(const Tensor& input, const Pool2dOptions& options);
Tensor avg_pool2d(const Tensor& input, const Pool2dOptions& options);
// Means over output_size windows: window i of n reads [floor(i h / n), ceil((i + 1) h / n)).
// An extent kInputExtent (input_extent.h) is the input's.
Tensor adaptive_avg_pool2d(const Tensor& input, IntPair output_size);

}  // namespace hvd
