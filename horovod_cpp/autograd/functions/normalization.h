#pragma once

#include "horovod_cpp/tensor/tensor.h"

// Normalisation within each example (batch_norm of functions.h: across examples). Floating dtypes;
// float16 and bfloat16 are computed in float32 and rounded; their weight and bias may be float32.
// Variances are biased, as PyTorch's.
namespace hvd {

// Over the last axes, which have the shape `normalized_shape`; weight and bias have that shape or
// are undefined (Ba, Kiros, Hinton: "Layer normalization", 2016).
Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

// input [n, c, ...]: over each of `num_groups` groups of channels of each example; weight and bias
// [c] or undefined (Wu, He: "Group normalization", ECCV 2018).
Tensor group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

}  // namespace hvd
