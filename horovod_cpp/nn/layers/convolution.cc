#include "horovod_cpp/nn/layers/convolution.h"

#include <algorithm>

#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/options.h"

namespace hvd::nn {
namespace {

void check_channels(const char* layer, std::int64_t in_channels, std::int64_t out_channels,
                    std::int64_t groups) {
  check_positive(layer, "in_channels", in_channels);
  check_positive(layer, "out_channels", out_channels);
  check_positive(layer, "groups", groups);
  if (in_channels % groups == 0 && out_channels % groups == 0) return;
  throw InvalidArgumentError(layer, ": in_channels=", in_channels,
                             " and out_channels=", out_channels,
                             ": expected multiples of groups=", groups);
}

void check_extents(const char* layer, const char* argument, const Shape& extents,
                   std::int64_t least) {
  for (const std::int64_t extent : extents) check_at_least(layer, argument, extent, least);
}

bool all_are(const Shape& values, std::int64_t usual) {
  return std::ranges::all_of(values, [usual](std::int64_t value) { return value == usual; });
}

}  // namespace

Convolution::Convolution(const char* layer, Arguments arguments, bool transposed)
    : arguments_(std::move(arguments)) {
  const auto& [in, out, kernel, stride, padding, same, dilation, output_padding, groups,
               with_bias] = arguments_;
  check_channels(layer, in, out, groups);
  check_extents(layer, "kernel_size", kernel, 1);
  check_extents(layer, "stride", stride, 1);
  check_extents(layer, "padding", padding, 0);
  if (same && !all_are(stride, 1)) {
    throw InvalidArgumentError(layer, ": padding 'same' needs a stride of 1");
  }
  check_extents(layer, "output_padding", output_padding, 0);
  check_extents(layer, "dilation", dilation, 1);
  Shape shape = transposed ? Shape{in, out / groups} : Shape{out, in / groups};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  weight = register_parameter("weight", Tensor::empty(shape));
  if (with_bias) bias = register_parameter("bias", Tensor::empty({out}));
  init::layer_default_(weight, bias);
}

// What is as by default is left out.
std::string Convolution::extra_repr() const {
  const Arguments& made = arguments_;
  std::string text = std::to_string(made.in_channels) + ", " + std::to_string(made.out_channels);
  text += ", kernel_size=" + text_of(made.kernel_size) + ", stride=" + text_of(made.stride);
  const auto add_unless = [&](const char* name, const Shape& values, std::int64_t usual) {
    if (!all_are(values, usual)) text += std::string(", ") + name + "=" + text_of(values);
  };
  if (made.same_padding) {
    text += ", padding=same";
  } else {
    add_unless("padding", made.padding, 0);
  }
  add_unless("dilation", made.dilation, 1);
  add_unless("output_padding", made.output_padding, 0);
  if (made.groups != 1) text += ", groups=" + std::to_string(made.groups);
  return bias.defined() ? text : text + ", bias=False";
}

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
               Conv1dOptions options)
    : Convolution("Conv1d", {.in_channels = in_channels,
                             .out_channels = out_channels,
                             .kernel_size = {kernel_size},
                             .stride = {options.stride},
                             .padding = {options.padding.size.width},
                             .same_padding = options.padding.same,
                             .dilation = {options.dilation},
                             .groups = options.groups,
                             .bias = options.bias}),
      options_(options) {}

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
               Conv2dOptions options)
    : Convolution("Conv2d", {.in_channels = in_channels,
                             .out_channels = out_channels,
                             .kernel_size = shape_of(kernel_size),
                             .stride = shape_of(options.stride),
                             .padding = shape_of(options.padding.size),
                             .same_padding = options.padding.same,
                             .dilation = shape_of(options.dilation),
                             .groups = options.groups,
                             .bias = options.bias}),
      options_(options) {}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels,
                                 IntPair kernel_size, ConvTranspose2dOptions options)
    : Convolution("ConvTranspose2d",
                  {.in_channels = in_channels,
                   .out_channels = out_channels,
                   .kernel_size = shape_of(kernel_size),
                   .stride = shape_of(options.stride),
                   .padding = shape_of(options.padding),
                   .dilation = shape_of(options.dilation),
                   .output_padding = shape_of(options.output_padding),
                   .groups = options.groups,
                   .bias = options.bias},
                  /*transposed=*/true),
      options_(options) {}

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

MaxPool2d::MaxPool2d(const Pool2dOptions& options) : options_(checked("MaxPool2d", options)) {}

std::string MaxPool2d::extra_repr() const {
  return windows(options_) + ", dilation=1, ceil_mode=" + text_of(options_.ceil_mode);
}

AvgPool2d::AvgPool2d(const Pool2dOptions& options) : options_(checked("AvgPool2d", options)) {}

std::string AvgPool2d::extra_repr() const {
  return windows(options_);
}

AdaptiveAvgPool2d::AdaptiveAvgPool2d(IntPair output_size) : output_size_(output_size) {
  for (const std::int64_t extent : {output_size.height, output_size.width}) {
    if (extent != kInputExtent) check_positive("AdaptiveAvgPool2d", "output_size", extent);
  }
}

std::string AdaptiveAvgPool2d::extra_repr() const {
  const auto text = [](std::int64_t extent) {
    return extent == kInputExtent ? "None" : std::to_string(extent);
  };
  return "output_size=(" + text(output_size_.height) + ", " + text(output_size_.width) + ")";
}

}  // namespace hvd::nn
