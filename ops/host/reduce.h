#pragma once

#include <cstdint>
#include <span>

#include "core/base/dtype.h"
#include "core/base/reduction.h"

namespace hvd::host {

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

}  // namespace hvd::host
