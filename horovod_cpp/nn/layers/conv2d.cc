#include "horovod_cpp/nn/layers/conv2d.h"

#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/layers/conv_checks.h"
#include "horovod_cpp/nn/option_text.h"

namespace hvd {
namespace nn {

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

}  // namespace nn
}  // namespace hvd
