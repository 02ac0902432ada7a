#include "horovod_cpp/nn/conv2d.h"

#include "horovod_cpp/autograd/functions.h"
#include "horovod_cpp/nn/checks.h"
#include "horovod_cpp/nn/init.h"

namespace hvd {
namespace nn {

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, int kernel_size, int stride,
               int padding, bool with_bias)
    : stride_(stride), padding_(padding) {
  check_positive("Conv2d", "in_channels", in_channels);
  check_positive("Conv2d", "out_channels", out_channels);
  check_positive("Conv2d", "kernel_size", kernel_size);
  check_positive("Conv2d", "stride", stride);
  check_at_least("Conv2d", "padding", padding, 0);
  weight = register_parameter("weight",
                              Tensor::empty({out_channels, in_channels, kernel_size, kernel_size}));
  if (with_bias) bias = register_parameter("bias", Tensor::empty({out_channels}));
  init::layer_default_(weight, bias);
}

Tensor Conv2d::forward(const Tensor& input) {
  return conv2d(input, weight, bias, stride_, padding_);
}

}  // namespace nn
}  // namespace hvd
