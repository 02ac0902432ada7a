#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace autograd {

// The gradient of a maximum over windows made of recorded functions: `gradient` [n, c, oh, ow] goes
// to the places `index` (integers of that shape, each within a plane of h * w) of zeros of `shape`.
Tensor recorded_max_pool_grad(const Tensor& gradient, const Tensor& index, const Shape& shape);

}  // namespace autograd
}  // namespace hvd
