#include "ops/host/int8_block.h"

#include <algorithm>
#include <bit>

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

std::uint32_t max_baseline(const float* in, std::int64_t count) {
  return max_loop(in, count);
}
void quantize_baseline(const float* in, float inverse, std::int8_t* out, std::int64_t count) {
  quantize_loop(in, inverse, out, count);
}
void dequantize_baseline(const std::int8_t* in, float scale, float* out, std::int64_t count) {
  dequantize_loop(in, scale, out, count);
}
void accumulate_baseline(const std::int8_t* in, float scale, float* sum, std::int64_t count) {
  accumulate_loop(in, scale, sum, count);
}

#if defined(__x86_64__)

[[gnu::target("avx2")]] std::uint32_t max_avx2(const float* in, std::int64_t count) {
  return max_loop(in, count);
}
[[gnu::target("avx2")]] void quantize_avx2(const float* in, float inverse, std::int8_t* out,
                                           std::int64_t count) {
  quantize_loop(in, inverse, out, count);
}
[[gnu::target("avx2")]] void dequantize_avx2(const std::int8_t* in, float scale, float* out,
                                             std::int64_t count) {
  dequantize_loop(in, scale, out, count);
}
[[gnu::target("avx2")]] void accumulate_avx2(const std::int8_t* in, float scale, float* sum,
                                             std::int64_t count) {
  accumulate_loop(in, scale, sum, count);
}

#endif

}  // namespace

const Int8Kernels& int8_kernels([[maybe_unused]] Isa isa) {
  static constexpr Int8Kernels kBaseline = {max_baseline, quantize_baseline, dequantize_baseline,
                                            accumulate_baseline};
#if defined(__x86_64__)
  static constexpr Int8Kernels kAvx2 = {max_avx2, quantize_avx2, dequantize_avx2, accumulate_avx2};
  if (isa == Isa::kAvx2) return kAvx2;
#endif
  return kBaseline;
}

}  // namespace hvd::host
