#include "horovod_cpp/nn/pooling.h"

#include <algorithm>

#include "horovod_cpp/nn/checks.h"
#include "horovod_cpp/nn/functional.h"

namespace hvd {
namespace nn {
namespace {

std::int64_t smaller(const IntPair& size) {
  return std::min(size.height, size.width);
}

Pool2dOptions checked(const char* layer, Pool2dOptions options) {
  if (options.stride == IntPair(0)) options.stride = options.kernel_size;
  check_positive(layer, "kernel_size", smaller(options.kernel_size));
  check_positive(layer, "stride", smaller(options.stride));
  check_at_least(layer, "padding", smaller(options.padding), 0);
  return options;
}

}  // namespace

MaxPool2d::MaxPool2d(int kernel_size, int stride, int padding, bool ceil_mode)
    : MaxPool2d(Pool2dOptions{kernel_size, stride, padding, ceil_mode}) {}

MaxPool2d::MaxPool2d(const Pool2dOptions& options) : options_(checked("MaxPool2d", options)) {}

Tensor MaxPool2d::forward(const Tensor& input) {
  return functional::max_pool2d(input, options_);
}

AvgPool2d::AvgPool2d(int kernel_size, int stride, int padding, bool ceil_mode,
                     bool count_include_pad)
    : AvgPool2d(Pool2dOptions{kernel_size, stride, padding, ceil_mode, count_include_pad}) {}

AvgPool2d::AvgPool2d(const Pool2dOptions& options) : options_(checked("AvgPool2d", options)) {}

Tensor AvgPool2d::forward(const Tensor& input) {
  return avg_pool2d(input, options_);
}

AdaptiveAvgPool2d::AdaptiveAvgPool2d(IntPair output_size) : output_size_(output_size) {
  check_positive("AdaptiveAvgPool2d", "output_size", smaller(output_size));
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& input) {
  return adaptive_avg_pool2d(input, output_size_);
}

}  // namespace nn
}  // namespace hvd
