#pragma once

#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

struct Conv1dOptions {
  std::int64_t stride = 1;
  ConvPadding padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

// [n, in_channels, l] -> [n, out_channels, l'] as hvd::conv1d: weight [out_channels, in_channels /
// groups, kernel_size], bias [out_channels]. Starts and throws as Conv2d.
class Conv1d : public Module {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         Conv1dOptions options = {});
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  Tensor weight;
  Tensor bias;  // undefined without one

 private:
  Conv1dOptions options_;
};

}  // namespace nn
}  // namespace hvd
