#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

// op(a) x op(b) of two matrices, op being transposition or nothing. f32 and f64; half types compute
// in float32.
Tensor matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
              const char* function = "matmul");

}  // namespace kernels
}  // namespace hvd
