#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd::kernels {

// op(a) x op(b) of two matrices, op being transposition or nothing. f32 and f64; half types compute
// in float32. `place`: contiguous memory of the result's shape and dtype that may be the result; it
// is not where it overlaps a or b.
Tensor matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
              const char* function = "matmul", const Tensor& place = {});

// [..., m, k] x [..., k, n] -> [..., m, n]; the leading axes broadcast. f32 and f64; half types
// compute in float32.
Tensor batched_matmul(const Tensor& a, const Tensor& b, const char* function);

}  // namespace hvd::kernels
