#pragma once

#include <cstdint>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

// Functions that give bool tensors, and those that a bool tensor tells what to do. Operands
// broadcast; two tensors to be compared have one dtype, a number need not fit into an integer one.
namespace hvd {

// Any dtype; complex numbers have no order. A NaN is unequal to anything. Not differentiable.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, double b);
Tensor ne(const Tensor& a, double b);
Tensor lt(const Tensor& a, double b);
Tensor le(const Tensor& a, double b);
Tensor gt(const Tensor& a, double b);
Tensor ge(const Tensor& a, double b);

// Any dtypes; what is not 0 is true, NaN too.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& a);
Tensor isnan(const Tensor& a);

// Whether any, or every, element along the axes (empty = all) is not 0.
Tensor any(const Tensor& a, std::vector<std::int64_t> axes = {}, bool keepdim = false);
Tensor all(const Tensor& a, std::vector<std::int64_t> axes = {}, bool keepdim = false);

// `a` where the condition (bool) is true, else `b`, of one dtype. Differentiable; what was not
// chosen gets 0, even where the other's gradient is not finite.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
// A copy of `a` with `value` where the mask (bool, broadcast to a's shape) is true. Differentiable.
Tensor masked_fill(const Tensor& a, const Tensor& mask, double value);
// The same with a tensor of one element, which is converted to a's dtype and gets the gradients
// of what it filled.
Tensor masked_fill(const Tensor& a, const Tensor& mask, const Tensor& value);

inline Tensor operator<(const Tensor& a, const Tensor& b) {
  return lt(a, b);
}
inline Tensor operator<=(const Tensor& a, const Tensor& b) {
  return le(a, b);
}
inline Tensor operator>(const Tensor& a, const Tensor& b) {
  return gt(a, b);
}
inline Tensor operator>=(const Tensor& a, const Tensor& b) {
  return ge(a, b);
}
inline Tensor operator<(const Tensor& a, double b) {
  return lt(a, b);
}
inline Tensor operator<=(const Tensor& a, double b) {
  return le(a, b);
}
inline Tensor operator>(const Tensor& a, double b) {
  return gt(a, b);
}
inline Tensor operator>=(const Tensor& a, double b) {
  return ge(a, b);
}

}  // namespace hvd
