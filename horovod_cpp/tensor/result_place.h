#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

// A tensor for a kernel's result of this shape and of a's dtype: `place`, if it is one and lies
// apart from what the kernel reads, else a new one.
Tensor in_place_of(const Tensor& place, Shape shape, const Tensor& a, const Tensor& b);

}  // namespace kernels
}  // namespace hvd
