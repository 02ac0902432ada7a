#include "horovod_cpp/nn/layers/conv_transpose2d.h"

#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/layers/conv_checks.h"
#include "horovod_cpp/nn/option_text.h"

namespace hvd {
namespace nn {

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

}  // namespace nn
}  // namespace hvd
