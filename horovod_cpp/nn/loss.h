#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace nn {

// Losses compare two tensors and hold none, so they are no modules.

// Mean over the batch of -log softmax(input)[target]: input [n, classes], target int64 [n] ->
// scalar.
class CrossEntropyLoss {
 public:
  Tensor forward(const Tensor& input, const Tensor& target) const;
  Tensor operator()(const Tensor& input, const Tensor& target) const {
    return forward(input, target);
  }
};

// Mean of (input - target)^2 over all elements -> scalar.
class MSELoss {
 public:
  Tensor forward(const Tensor& input, const Tensor& target) const;
  Tensor operator()(const Tensor& input, const Tensor& target) const {
    return forward(input, target);
  }
};

}  // namespace nn
}  // namespace hvd
