#pragma once

#include <complex>
#include <cstdint>

#include "core/base/isa.h"
#include "core/base/reduction.h"

namespace hvd::host {

// Loops over arrays of one accumulator type: an integer, f32, f64 or a complex of them. `out` may
// be exactly one of the inputs.
template <typename T>
struct Kernels {
  // out[i] = a[i] op b[i]. A complex product is (ac - bd) + (ad + bc)i, whatever overflows.
  void (*combine)(const T* a, const T* b, T* out, std::int64_t count);
  // out[i] = factor * in[i]: f32 multiplies by the factor rounded to f32; integers in f64,
  // truncated and saturated (a NaN gives 0).
  void (*scale)(const T* in, double factor, T* out, std::int64_t count);
  // Both in one pass: out[i] = factor * (a[i] op b[i]), the same bits.
  void (*combine_scaled)(const T* a, const T* b, double factor, T* out, std::int64_t count);
};

// InvalidArgumentError for an `op` that T does not have (check_reduction says which) and for those
// that are no elementwise operation, kAverage and kAdasum. `isa` must not exceed best_isa().
template <typename T>
Kernels<T> kernels(ReduceOp op, Isa isa = best_isa());

extern template Kernels<std::uint8_t> kernels(ReduceOp, Isa);
extern template Kernels<std::int8_t> kernels(ReduceOp, Isa);
extern template Kernels<std::uint16_t> kernels(ReduceOp, Isa);
extern template Kernels<std::int16_t> kernels(ReduceOp, Isa);
extern template Kernels<std::int32_t> kernels(ReduceOp, Isa);
extern template Kernels<std::int64_t> kernels(ReduceOp, Isa);
extern template Kernels<float> kernels(ReduceOp, Isa);
extern template Kernels<double> kernels(ReduceOp, Isa);
extern template Kernels<std::complex<float>> kernels(ReduceOp, Isa);
extern template Kernels<std::complex<double>> kernels(ReduceOp, Isa);

}  // namespace hvd::host
