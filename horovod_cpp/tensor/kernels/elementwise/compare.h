#pragma once

#include "horovod_cpp/tensor/tensor.h"

// Functions that give bool tensors, or are told by one. Operands broadcast.
namespace hvd {
namespace kernels {

enum class Compare { kEq, kNe, kLt, kLe, kGt, kGe };
enum class Logical { kAnd, kOr, kXor };

// Of one dtype. Complex numbers are equal or not, and have no order. A NaN is unequal to anything.
Tensor compare(Compare op, const Tensor& a, const Tensor& b, const char* function);
// What is not 0 is true.
Tensor truth(const Tensor& a);
Tensor logical(Logical op, const Tensor& a, const Tensor& b, const char* function);
// `a` where the condition (bool) is true, else `b`; both have one dtype, any.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, const char* function);
// Of a floating tensor.
bool has_nan(const Tensor& a);

}  // namespace kernels
}  // namespace hvd
