#include "ops/host/int8_block.h"

#include <algorithm>
#include <bit>

#include "ops/host/loops.h"

namespace hvd::host {
namespace {

[[gnu::always_inline]] inline std::uint32_t max_loop(const float* in, std::int64_t count) {
  std::int32_t most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::bit_cast<std::int32_t>(in[i]) & 0x7fffffff);
  }
  return static_cast<std::uint32_t>(most);
}

[[gnu::always_inline]] inline void quantize_loop(const float* in, float inverse, std::int8_t* out,
                                                 std::int64_t count) {
  // Added to a small number it leaves no room for a fraction: the FPU rounds, and the integer is
  // what the bits grew by.
  constexpr float kMagic = 0x1.8p23f;
  constexpr auto kMagicBits = std::bit_cast<std::int32_t>(kMagic);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::int32_t>(in[i] * inverse + kMagic);
    out[i] = static_cast<std::int8_t>(bits - kMagicBits);
  }
}

[[gnu::always_inline]] inline void dequantize_loop(const std::int8_t* in, float scale, float* out,
                                                   std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = scale * static_cast<float>(in[i]);
}

[[gnu::always_inline]] inline void accumulate_loop(const std::int8_t* in, float scale, float* sum,
                                                   std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += scale * static_cast<float>(in[i]);
}

}  // namespace

Int8Kernels int8_kernels(Isa isa) {
  return {compiled_for<max_loop>(isa), compiled_for<quantize_loop>(isa),
          compiled_for<dequantize_loop>(isa), compiled_for<accumulate_loop>(isa)};
}

}  // namespace hvd::host
