#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Where backward() puts the gradient of this leaf when it has none yet; undefined = memory of its
// own. It stays when grad() goes.
Tensor grad_memory(const Tensor& leaf);
// Throws InvalidArgumentError unless `memory` is undefined, or contiguous and of the leaf's shape
// and dtype.
void set_grad_memory(const Tensor& leaf, Tensor memory);

}  // namespace hvd
