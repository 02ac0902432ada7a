#pragma once

#include <initializer_list>
#include <vector>

#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"

// How functions find the dtype they compute in; modes.h has the rules. Undefined tensors pass.
namespace hvd {
namespace autograd {

inline bool is_half(const Tensor& a) {
  return a.defined() && hvd::is_half(a.dtype());
}

// Tensor::to that keeps the layout, and gradients of the layout they come in.
Tensor cast(const Tensor& a, DType dtype);
// Half types as float32.
Tensor widened(const Tensor& a);
// The operand of a product: cast if this is a region.
Tensor lowered(const Tensor& a);

// Whether an operation that belongs into float32 has to cast this operand first.
inline bool raises(const Tensor& a) {
  return is_autocast_enabled() && is_half(a);
}

// Whether an operation of several operands computes in float32 in the place of a half type: in a
// region if one of them is half; elsewhere if all are of one half dtype.
bool computes_in_float32(std::initializer_list<const Tensor*> operands);

// Whether operands of different floating dtypes are to meet in the wider one.
bool mixes(const Tensor& a, const Tensor& b);
DType wider(DType a, DType b);

template <typename Function>
Tensor mixed(const Tensor& a, const Tensor& b, Function function) {
  const DType dtype = wider(a.dtype(), b.dtype());
  return function(cast(a, dtype), cast(b, dtype));
}

// As they are, but for those that mix.
std::vector<Tensor> in_one_dtype(std::vector<Tensor> parts);

// What `function` makes of float32 in the place of a half operand, rounded back.
template <typename Function>
Tensor through_float32(const Tensor& a, Function function) {
  return cast(function(widened(a)), a.dtype());
}

// The same, but in a region the result stays float32.
template <typename Function>
Tensor in_float32(const Tensor& a, Function function) {
  return is_autocast_enabled() ? function(widened(a)) : through_float32(a, function);
}

}  // namespace autograd
}  // namespace hvd
