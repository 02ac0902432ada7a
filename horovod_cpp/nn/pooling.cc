#include "horovod_cpp/nn/pooling.h"

#include "horovod_cpp/autograd/functions.h"
#include "horovod_cpp/nn/checks.h"

namespace hvd {
namespace nn {

MaxPool2d::MaxPool2d(int kernel_size, int stride)
    : kernel_size_(kernel_size), stride_(stride == 0 ? kernel_size : stride) {
  check_positive("MaxPool2d", "kernel_size", kernel_size_);
  check_positive("MaxPool2d", "stride", stride_);
}

Tensor MaxPool2d::forward(const Tensor& input) {
  return max_pool2d(input, kernel_size_, stride_);
}

}  // namespace nn
}  // namespace hvd
