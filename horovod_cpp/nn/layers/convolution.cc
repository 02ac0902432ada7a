#include "horovod_cpp/nn/layers/convolution.h"

#include <algorithm>

#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/nn/functional.h"
#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/options.h"

namespace hvd::nn {

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
               Conv1dOptions options)
    : options_(options) {
  check_channels("Conv1d", in_channels, out_channels, options.groups);
  check_positive("Conv1d", "kernel_size", kernel_size);
  check_positive("Conv1d", "stride", options.stride);
  check_padding("Conv1d", options.padding, options.stride);
  check_positive("Conv1d", "dilation", options.dilation);
  weight = register_parameter(
      "weight", Tensor::empty({out_channels, in_channels / options.groups, kernel_size}));
  if (options.bias) bias = register_parameter("bias", Tensor::empty({out_channels}));
  init::layer_default_(weight, bias);
}

Tensor Conv1d::forward(const Tensor& input) {
  return conv1d(input, weight, bias, options_.stride, options_.padding, options_.dilation,
                options_.groups);
}

std::string Conv1d::extra_repr() const {
  return text_of(ConvolutionText{.in_channels = weight.size(1) * options_.groups,
                                 .out_channels = weight.size(0),
                                 .kernel_size = {weight.size(2)},
                                 .stride = {options_.stride},
                                 .padding = {options_.padding.size.width},
                                 .same_padding = options_.padding.same,
                                 .dilation = {options_.dilation},
                                 .groups = options_.groups,
                                 .bias = bias.defined()});
}

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
               Conv2dOptions options)
    : options_(options) {
  check_channels("Conv2d", in_channels, out_channels, options.groups);
  check_pair("Conv2d", "kernel_size", kernel_size, 1);
  check_pair("Conv2d", "stride", options.stride, 1);
  check_padding("Conv2d", options.padding, options.stride);
  check_pair("Conv2d", "dilation", options.dilation, 1);
  weight = register_parameter("weight", Tensor::empty({out_channels, in_channels / options.groups,
                                                       kernel_size.height, kernel_size.width}));
  if (options.bias) bias = register_parameter("bias", Tensor::empty({out_channels}));
  init::layer_default_(weight, bias);
}

Tensor Conv2d::forward(const Tensor& input) {
  return conv2d(input, weight, bias, options_.stride, options_.padding, options_.dilation,
                options_.groups);
}

std::string Conv2d::extra_repr() const {
  return text_of(ConvolutionText{.in_channels = weight.size(1) * options_.groups,
                                 .out_channels = weight.size(0),
                                 .kernel_size = {weight.size(2), weight.size(3)},
                                 .stride = shape_of(options_.stride),
                                 .padding = shape_of(options_.padding.size),
                                 .same_padding = options_.padding.same,
                                 .dilation = shape_of(options_.dilation),
                                 .groups = options_.groups,
                                 .bias = bias.defined()});
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels,
                                 IntPair kernel_size, ConvTranspose2dOptions options)
    : options_(options) {
  check_channels("ConvTranspose2d", in_channels, out_channels, options.groups);
  check_pair("ConvTranspose2d", "kernel_size", kernel_size, 1);
  check_pair("ConvTranspose2d", "stride", options.stride, 1);
  check_pair("ConvTranspose2d", "padding", options.padding, 0);
  check_pair("ConvTranspose2d", "output_padding", options.output_padding, 0);
  check_pair("ConvTranspose2d", "dilation", options.dilation, 1);
  weight = register_parameter("weight", Tensor::empty({in_channels, out_channels / options.groups,
                                                       kernel_size.height, kernel_size.width}));
  if (options.bias) bias = register_parameter("bias", Tensor::empty({out_channels}));
  init::layer_default_(weight, bias);
}

Tensor ConvTranspose2d::forward(const Tensor& input) {
  return conv_transpose2d(input, weight, bias, options_.stride, options_.padding,
                          options_.output_padding, options_.groups, options_.dilation);
}

std::string ConvTranspose2d::extra_repr() const {
  return text_of(ConvolutionText{.in_channels = weight.size(0),
                                 .out_channels = weight.size(1) * options_.groups,
                                 .kernel_size = {weight.size(2), weight.size(3)},
                                 .stride = shape_of(options_.stride),
                                 .padding = shape_of(options_.padding),
                                 .dilation = shape_of(options_.dilation),
                                 .output_padding = shape_of(options_.output_padding),
                                 .groups = options_.groups,
                                 .bias = bias.defined()});
}

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

}  // namespace hvd::nn
