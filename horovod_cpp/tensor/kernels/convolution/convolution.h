#pragma once

#include <array>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd::kernels {

// A convolution of images with one or two spatial axes (one: the height is 1), or the transposed
// one that goes the other way: `in` is the side that is padded, `out` the side that is strided.
struct ConvShape {
  std::int64_t images, in_channels, out_channels, groups;
  std::array<std::int64_t, 2> in, out, kernel, stride, padding, dilation;
  std::int64_t spatial;  // 1 or 2

  std::int64_t taps() const { return kernel[0] * kernel[1]; }
  Shape images_shape(bool of_out) const {
    return shape_of(images, of_out ? out_channels : in_channels, of_out ? out : in);
  }
  Shape weight_shape() const { return shape_of(out_channels, in_channels / groups, kernel); }
  Shape shape_of(std::int64_t first, std::int64_t second,
                 const std::array<std::int64_t, 2>& extents) const {
    if (spatial == 1) return {first, second, extents[1]};
    return {first, second, extents[0], extents[1]};
  }
};

// Tensors are floating, of one dtype and fit the shape; the caller has checked. The weight is
// [out_channels, in_channels / groups, kernel...]; results that are images are channels last.

// [n, in_channels, ...] -> [n, out_channels, ...]; bias [out_channels] or undefined.
Tensor convolve(const ConvShape& shape, const Tensor& input, const Tensor& weight,
                const Tensor& bias);
// The transpose of it: [n, out_channels, ...] -> [n, in_channels, ...]. It is the gradient of
// `input`, and a transposed convolution; bias [in_channels] or undefined.
Tensor convolve_transposed(const ConvShape& shape, const Tensor& output, const Tensor& weight,
                           const Tensor& bias);
// The gradient of the weight, where `output` is the gradient of the out side. `place` as for
// matmul.
Tensor convolve_weight_grad(const ConvShape& shape, const Tensor& input, const Tensor& output,
                            const Tensor& place = {});

// The same for bfloat16 alone, as products of matrices.
using Bf16Gemm = decltype(isa::Bf16Kernels::gemm);
Tensor bf16_convolve(const ConvShape& shape, bool c_is_out, const Tensor& a, const Tensor& weight,
                     const Tensor& bias, Bf16Gemm gemm);
Tensor bf16_convolve_weight_grad(const ConvShape& shape, const Tensor& input, const Tensor& output,
                                 Bf16Gemm gemm);

}  // namespace hvd::kernels
