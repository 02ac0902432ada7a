#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

// [..., m, k] x [..., k, n] -> [..., m, n]; the leading axes broadcast. f32 and f64; half types
// compute in float32.
Tensor batched_matmul(const Tensor& a, const Tensor& b, const char* function);

}  // namespace kernels
}  // namespace hvd
