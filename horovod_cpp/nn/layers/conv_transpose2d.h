#pragma once

#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

struct ConvTranspose2dOptions {
  IntPair stride = 1;
  IntPair padding = 0;
  IntPair output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  IntPair dilation = 1;
};

// [n, in_channels, h, w] -> [n, out_channels, h', w'] as hvd::conv_transpose2d: weight
// [in_channels, out_channels / groups, kernel...], bias [out_channels]. Starts and throws as
// Conv2d.
class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
                  ConvTranspose2dOptions options = {});
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  Tensor weight;
  Tensor bias;  // undefined without one

 private:
  ConvTranspose2dOptions options_;
};

}  // namespace nn
}  // namespace hvd
