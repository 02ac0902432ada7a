#pragma once

#include "horovod_cpp/tensor/tensor.h"

// Functions of this namespace do what their namesakes in hvd do, outside the graph: autograd
// records them. Results are contiguous and new, unless a comment says otherwise.
namespace hvd {
namespace kernels {

Tensor contiguous(const Tensor& a);  // `a` itself when it is
Tensor clone(const Tensor& a);
Tensor to(const Tensor& a, DType dtype);                  // `a` itself when it has this dtype
Tensor to_device(const Tensor& a, const Device& device);  // `a` itself when it is there

// Broadcasts and converts `source`, of any device, into `target`'s memory, which may not overlap it
// unless both are the same elements. Complex elements become complex ones only, else
// InvalidArgumentError.
void copy_into(const Tensor& target, const Tensor& source);
// Throws InvalidArgumentError if `value` does not fit (see require_fits).
void fill(const Tensor& target, double value);

// Throws InvalidArgumentError naming `function` if an integer dtype does not reach to `value`, its
// fraction aside, or if `value` is neither 0 nor 1 for bool.
void require_fits(double value, DType dtype, const char* function);

}  // namespace kernels
}  // namespace hvd
