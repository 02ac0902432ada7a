#include "horovod_cpp/nn/layers/conv1d.h"

#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/layers/conv_checks.h"
#include "horovod_cpp/nn/option_text.h"

namespace hvd {
namespace nn {

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

}  // namespace nn
}  // namespace hvd
