#pragma once

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// [n, in_channels, h, w] -> [n, out_channels, h', w'] with h' = (h + 2 padding - kernel) / stride
// + 1, zero padding and a square kernel: weight [out_channels, in_channels, kernel, kernel], bias
// [out_channels]. Starts as PyTorch's (init::layer_default_).
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, int kernel_size, int stride = 1,
         int padding = 0, bool bias = true);
  Tensor forward(const Tensor& input) override;

  Tensor weight;
  Tensor bias;  // undefined without one

 private:
  int stride_;
  int padding_;
};

}  // namespace nn
}  // namespace hvd
