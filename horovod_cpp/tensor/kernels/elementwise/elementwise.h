#pragma once

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

using isa::Binary;
using isa::Unary;

// Floating dtypes; kNeg, kAbs, kSign and kSquare take integers too. float16 and bfloat16 compute in
// float32.
Tensor unary(Unary op, const Tensor& a, const char* function);
// Operands broadcast and have one dtype. Integers know kAdd, kSub and kMul, modulo 2^bits, kMaximum
// and kMinimum; bools kAdd and kMaximum (or), kMul and kMinimum (and).
Tensor binary(Binary op, const Tensor& a, const Tensor& b, const char* function);
Tensor pow(const Tensor& a, double exponent);
// Operands broadcast and have one floating dtype.
Tensor pow(const Tensor& a, const Tensor& exponent);

// target += alpha * source, which broadcasts and has the same dtype.
void add_into(const Tensor& target, const Tensor& source, double alpha);
void scale(const Tensor& target, double factor);

}  // namespace kernels
}  // namespace hvd
