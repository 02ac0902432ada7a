#pragma once

#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

struct Conv2dOptions {
  IntPair stride = 1;
  ConvPadding padding = 0;
  IntPair dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

// [n, in_channels, h, w] -> [n, out_channels, h', w'] as hvd::conv2d: weight [out_channels,
// in_channels / groups, kernel...], bias [out_channels]. Starts as PyTorch's
// (init::layer_default_). Throws InvalidArgumentError naming the argument that makes no sense.
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
         Conv2dOptions options);
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
         IntPair stride = 1, ConvPadding padding = 0, bool with_bias = true)
      : Conv2d(in_channels, out_channels, kernel_size,
               Conv2dOptions{.stride = stride, .padding = padding, .bias = with_bias}) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  Tensor weight;
  Tensor bias;  // undefined without one

 private:
  Conv2dOptions options_;
};

}  // namespace nn
}  // namespace hvd
