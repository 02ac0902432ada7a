#include "horovod_cpp/nn/layers/pooling.h"

#include <algorithm>

#include "horovod_cpp/autograd/functions/window.h"
#include "horovod_cpp/nn/checks.h"
#include "horovod_cpp/nn/functional.h"
#include "horovod_cpp/nn/option_text.h"

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

std::string windows(const Pool2dOptions& options) {
  return "kernel_size=" + text_of(options.kernel_size) + ", stride=" + text_of(options.stride) +
         ", padding=" + text_of(options.padding);
}

}  // namespace

MaxPool2d::MaxPool2d(int kernel_size, int stride, int padding, bool ceil_mode)
    : MaxPool2d(Pool2dOptions{kernel_size, stride, padding, ceil_mode}) {}

MaxPool2d::MaxPool2d(const Pool2dOptions& options) : options_(checked("MaxPool2d", options)) {}

Tensor MaxPool2d::forward(const Tensor& input) {
  return functional::max_pool2d(input, options_);
}

std::string MaxPool2d::extra_repr() const {
  return windows(options_) + ", dilation=1, ceil_mode=" + text_of(options_.ceil_mode);
}

AvgPool2d::AvgPool2d(int kernel_size, int stride, int padding, bool ceil_mode,
                     bool count_include_pad)
    : AvgPool2d(Pool2dOptions{kernel_size, stride, padding, ceil_mode, count_include_pad}) {}

AvgPool2d::AvgPool2d(const Pool2dOptions& options) : options_(checked("AvgPool2d", options)) {}

Tensor AvgPool2d::forward(const Tensor& input) {
  return avg_pool2d(input, options_);
}

std::string AvgPool2d::extra_repr() const {
  return windows(options_);
}

AdaptiveAvgPool2d::AdaptiveAvgPool2d(IntPair output_size) : output_size_(output_size) {
  for (const std::int64_t extent : {output_size.height, output_size.width}) {
    if (extent != kInputExtent) check_positive("AdaptiveAvgPool2d", "output_size", extent);
  }
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& input) {
  return adaptive_avg_pool2d(input, output_size_);
}

std::string AdaptiveAvgPool2d::extra_repr() const {
  const auto text = [](std::int64_t extent) {
    return extent == kInputExtent ? "None" : std::to_string(extent);
  };
  return "output_size=(" + text(output_size_.height) + ", " + text(output_size_.width) + ")";
}

}  // namespace nn
}  // namespace hvd
