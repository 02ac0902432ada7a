#pragma once

#include <cstddef>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace autograd {

// For the Backward that runs: memory in which it may compute the gradient of its input number
// `input`, and return that very tensor. It is the leaf's grad_memory(), where the gradient would
// be copied to otherwise. Undefined where the gradient is a part of a sum, is recorded, or has no
// such memory.
Tensor gradient_place(std::size_t input);

}  // namespace autograd
}  // namespace hvd
