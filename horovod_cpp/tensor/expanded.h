#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Whether elements share memory, as those of an expanded tensor do: what such a tensor holds after
// a write would depend on the order in which its elements were written.
bool is_expanded(const Tensor& tensor);

// Functions that write into `tensor` call this first. Throws InvalidArgumentError naming `function`
// and the shape if it is expanded.
void refuse_expanded(const Tensor& tensor, const char* function);

}  // namespace hvd
