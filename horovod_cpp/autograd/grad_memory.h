#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Where backward() puts the gradient of this leaf when it has none yet; undefined = memory of its
// own. It stays when grad() goes.
Tensor grad_memory(const Tensor& leaf);
// Throws InvalidArgumentError unless `memory` is undefined, or contiguous and of the leaf's shape
// and dtype.
void set_grad_memory(const Tensor& leaf, Tensor memory);

// While `why` is not null, a part of this leaf's gradient is elsewhere, and what reads or sets the
// gradient (grad(), set_grad(), row_gradient(): so also clipping, zero_grad() and optimizers)
// throws InvalidArgumentError with that text. backward() adds to what is there.
std::shared_ptr<const std::string> grad_lock(const Tensor& leaf);
void set_grad_lock(const Tensor& leaf, std::shared_ptr<const std::string> why);

namespace autograd {

// For the Backward that runs: memory in which it may compute the gradient of its input number
// `input`, and return that very tensor. It is the leaf's grad_memory(), where the gradient would
// be copied to otherwise. Undefined where the gradient is a part of a sum, is recorded, or has no
// such memory.
Tensor gradient_place(std::size_t input);

}  // namespace autograd
}  // namespace hvd
