#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

// Rows of a contiguous f32 or f64 tensor with mean 0 and deviation 1: `values` are
// (input - mean) * inverse with inverse = 1 / sqrt(variance + eps), f64 [rows].
struct Normalized {
  Tensor values, inverse;
};
Normalized normalize_rows(const Tensor& input, std::int64_t rows, double eps);
Tensor normalize_rows_grad(const Tensor& grad, const Tensor& values, const Tensor& inverse);

}  // namespace kernels
}  // namespace hvd
