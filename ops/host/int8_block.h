#pragma once

#include <cstdint>

#include "core/base/isa.h"

namespace hvd::host {

// Loops over one block of the int8 wire format (ops/host/wire.h).
struct Int8Kernels {
  // The largest magnitude, as the bits of an f32: at least 0x7f800000 if one is infinite or NaN.
  std::uint32_t (*max_magnitude)(const float* in, std::int64_t count);
  // out[i] = in[i] * inverse, rounded to nearest even; that is between -127 and 127.
  void (*quantize)(const float* in, float inverse, std::int8_t* out, std::int64_t count);
  // out[i] = scale * in[i].
  void (*dequantize)(const std::int8_t* in, float scale, float* out, std::int64_t count);
  // sum[i] += scale * in[i].
  void (*accumulate)(const std::int8_t* in, float scale, float* sum, std::int64_t count);
};

Int8Kernels int8_kernels(Isa isa);

}  // namespace hvd::host
