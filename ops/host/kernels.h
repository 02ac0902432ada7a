#pragma once

#include <cstdint>

#include "core/base/reduce_op.h"
#include "ops/host/isa.h"

namespace hvd::host {

// Loops over arrays of one accumulator type: u8, i32, i64, f32 or f64. `out` may be exactly one of
// the inputs.
template <typename T>
struct Kernels {
  // out[i] = a[i] op b[i].
  void (*combine)(const T* a, const T* b, T* out, std::int64_t count);
  // out[i] = factor * in[i]: f32 multiplies by the factor rounded to f32; integers in f64,
  // truncated and saturated (a NaN gives 0).
  void (*scale)(const T* in, double factor, T* out, std::int64_t count);
};

// `op` is kSum, kMin, kMax or kProduct, else InvalidArgumentError; `isa` must not exceed
// best_isa().
template <typename T>
Kernels<T> kernels(ReduceOp op, Isa isa = best_isa());

extern template Kernels<std::uint8_t> kernels(ReduceOp, Isa);
extern template Kernels<std::int32_t> kernels(ReduceOp, Isa);
extern template Kernels<std::int64_t> kernels(ReduceOp, Isa);
extern template Kernels<float> kernels(ReduceOp, Isa);
extern template Kernels<double> kernels(ReduceOp, Isa);

}  // namespace hvd::host
