#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/dtype.h"
#include "core/base/isa.h"
#include "core/base/reduction.h"

// Lossy wire formats of one array. f16 and bf16 are rounded to nearest even; what overflows becomes
// infinite. int8 stands in blocks of kWireBlock elements, the last one shorter: an f32 scale
// (largest magnitude / 127), then a signed byte an element, scale * byte being the value, rounded
// to nearest even.
// - An element differs from what is encoded by half a scale at most (and f32's rounding).
// - A block with an infinity or a NaN becomes all NaN: it does not vanish.
// - A block without a magnitude of 2^-119 or more becomes zeros.
// The same bits on every CPU, whatever `isa` is; `isa` must not exceed best_isa(). Encoded arrays
// are aligned to 4 bytes. InvalidArgumentError for kNone and for dtypes other than f32 and f64.
namespace hvd::engine::host {

inline constexpr std::int64_t kWireBlock = 256;

// Of `numel` encoded elements; a multiple of 4. An array may be cut where a multiple of kWireBlock
// elements ends: wire_bytes() of the elements before is where the next one begins.
std::size_t wire_bytes(WireFormat format, std::int64_t numel);

// Encodes prescale * in (+ residual), in f32. `residual` may be null; it then holds what was lost:
// the sum less what is decoded, or 0 where that is not finite.
void encode(WireFormat format, DType dtype, const void* in, double prescale, float* residual,
            std::int64_t numel, void* out, Isa isa = best_isa());

void decode(WireFormat format, const void* in, DType dtype, void* out, std::int64_t numel,
            Isa isa = best_isa());

// The encoding of postscale * (sum of the decoded inputs), added in f32 in the order of `inputs`.
// `out` may be exactly one of them. Throws InvalidArgumentError without inputs.
void reduce_encoded(WireFormat format, std::span<const void* const> inputs, std::int64_t numel,
                    double postscale, void* out, Isa isa = best_isa());

}  // namespace hvd::engine::host
