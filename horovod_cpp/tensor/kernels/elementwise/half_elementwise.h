#pragma once

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

// unary() and binary() of elementwise.h for float16 and bfloat16.
Tensor half_unary(isa::Unary op, const Tensor& a);
Tensor half_binary(isa::Binary op, const Tensor& a, const Tensor& b, const char* function);

}  // namespace kernels
}  // namespace hvd
