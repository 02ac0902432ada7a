#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

struct ConvOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

// input [n, ci, h, w], weight [co, ci, kh, kw], bias [co] or undefined; f32 or f64.
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, ConvOptions options);

// The gradients that are asked for; the others stay undefined.
struct ConvGradients {
  Tensor input, weight;
};
ConvGradients conv2d_grad(const Tensor& grad, const Tensor& input, const Tensor& weight,
                          ConvOptions options, bool input_needed, bool weight_needed);

}  // namespace kernels
}  // namespace hvd
