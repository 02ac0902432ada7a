#pragma once

#include <cstdint>

#include "core/base/half.h"
#include "core/base/isa.h"

namespace hvd::engine::host {

// Bulk conversion of `count` elements. Values are those of core/base/half.h (nearest, ties to
// even), but a signalling NaN becomes quiet, as the CPU's own conversion makes it. `in` and `out`
// must not overlap. The same bits on every CPU, whatever `isa` is; `isa` must not exceed
// best_isa().
void to_float(const Float16* in, float* out, std::int64_t count, Isa isa = best_isa());
void to_float(const BFloat16* in, float* out, std::int64_t count, Isa isa = best_isa());
void from_float(const float* in, Float16* out, std::int64_t count, Isa isa = best_isa());
void from_float(const float* in, BFloat16* out, std::int64_t count, Isa isa = best_isa());

}  // namespace hvd::engine::host
