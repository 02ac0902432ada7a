#pragma once

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/kernels/convolution/convolution.h"

// The functions of convolution.h for float16 and bfloat16, summed in float32 and rounded once.
namespace hvd {
namespace kernels {

// c_is_out: convolve(), else convolve_transposed().
Tensor half_convolve(const ConvShape& shape, bool c_is_out, const Tensor& a, const Tensor& weight,
                     const Tensor& bias);
Tensor half_convolve_weight_grad(const ConvShape& shape, const Tensor& input, const Tensor& output);

// The same for bfloat16 alone, as products of matrices: what the positions of the kernel meet is
// put side by side (patches), block by block, and multiplied with the weight.
using Bf16Gemm = decltype(isa::Bf16Kernels::gemm);
Tensor bf16_convolve(const ConvShape& shape, bool c_is_out, const Tensor& a, const Tensor& weight,
                     const Tensor& bias, Bf16Gemm gemm);
Tensor bf16_convolve_weight_grad(const ConvShape& shape, const Tensor& input, const Tensor& output,
                                 Bf16Gemm gemm);

}  // namespace kernels
}  // namespace hvd
