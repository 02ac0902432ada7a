#pragma once

#include <cstdint>
#include <span>

#include "core/base/dtype.h"
#include "core/base/isa.h"
#include "core/base/reduction.h"

namespace hvd::engine::host {

// out[i] = postscale * (prescale * inputs[0][i] op prescale * inputs[1][i] op ...), in the order of
// `inputs`, for i < numel: the same bits on every CPU and however the elements are divided among
// calls.
// - f16 and bf16 accumulate and scale in f32 and are rounded once, at the end; f32 and complex64
//   scale in f32.
// - Integers wrap around. A scale other than 1 is applied in f64, truncated towards zero and
//   saturated: the prescale to each input, the postscale to the result.
// - kMin and kMax return NaN where any input is NaN.
// - bool: kSum, kMax and kBitOr are a logical or; kProduct, kMin and kBitAnd a logical and.
// `out` may be exactly one of the inputs and must not overlap one otherwise. Pointers are aligned
// to their dtype. Throws InvalidArgumentError for what check_reduction() refuses, for kAverage (a
// sum with a scale) and kAdasum (ops/host/adasum.h), no inputs, or a negative numel.
void reduce(DType dtype, ReduceOp op, std::span<const void* const> inputs, void* out,
            std::int64_t numel, double prescale, double postscale);

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

}  // namespace hvd::engine::host
