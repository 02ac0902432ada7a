#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Products of equally many matrices: [b, m, k] x [b, k, n] -> [b, m, n]; either may be strided. One
// dtype, as matmul. Throws InvalidArgumentError naming both shapes.
Tensor bmm(const Tensor& a, const Tensor& b);

}  // namespace hvd
