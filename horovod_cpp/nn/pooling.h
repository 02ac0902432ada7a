#pragma once

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// The largest of each kernel_size x kernel_size window of [n, c, h, w]. A stride of 0 means
// kernel_size.
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(int kernel_size, int stride = 0);
  Tensor forward(const Tensor& input) override;

 private:
  int kernel_size_;
  int stride_;
};

}  // namespace nn
}  // namespace hvd
