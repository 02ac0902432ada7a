#include "ops/host/convert.h"

#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hvd::engine::host {
namespace {

constexpr std::uint32_t kQuietBit = 0x00400000u;

[[gnu::always_inline]] inline float quiet(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return std::bit_cast<float>(is_nan ? bits | kQuietBit : bits);
}

#if defined(__x86_64__)

// These return how many elements they converted: whole vectors.
[[gnu::target("avx2,f16c")]] std::int64_t widen_f16c(const Float16* in, float* out,
                                                     std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
  return i;
}

[[gnu::target("avx2,f16c")]] std::int64_t narrow_f16c(const float* in, Float16* out,
                                                      std::int64_t count) {
  const __m256 sign_bit = _mm256_set1_ps(-0.0f);
  const __m256 quiet_nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 values = _mm256_loadu_ps(in + i);
    // The CPU would keep a NaN's payload; to_float16 keeps its sign alone.
    const __m256 plain_nan = _mm256_or_ps(_mm256_and_ps(values, sign_bit), quiet_nan);
    const __m256 is_nan = _mm256_cmp_ps(values, values, _CMP_UNORD_Q);
    const __m256 chosen = _mm256_blendv_ps(values, plain_nan, is_nan);
    const __m128i halves = _mm256_cvtps_ph(chosen, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
  return i;
}

[[gnu::target("avx2")]] std::int64_t widen_avx2(const BFloat16* in, float* out,
                                                std::int64_t count) {
  const __m256 quiet_bit = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kQuietBit)));
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
    const __m256 values = _mm256_castsi256_ps(bits);
    const __m256 is_nan = _mm256_cmp_ps(values, values, _CMP_UNORD_Q);
    _mm256_storeu_ps(out + i, _mm256_or_ps(values, _mm256_and_ps(is_nan, quiet_bit)));
  }
  return i;
}

// Eight rounded values, each in the lower half of 32 bits; the same steps as to_bfloat16.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i rounded_bfloat16(const float* in) {
  const __m256 values = _mm256_loadu_ps(in);
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(static_cast<int>(kQuietBit)));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
  const __m256i chosen = _mm256_blendv_epi8(_mm256_add_epi32(bits, up), quiet, is_nan);
  return _mm256_srli_epi32(chosen, 16);
}

[[gnu::target("avx2")]] std::int64_t narrow_avx2(const float* in, BFloat16* out,
                                                 std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    // Packing works on each half of the registers; the permutation puts the quarters in order.
    const __m256i mixed =
        _mm256_packus_epi32(rounded_bfloat16(in + i), rounded_bfloat16(in + i + 8));
    const __m256i halves = _mm256_permute4x64_epi64(mixed, 0b11'01'10'00);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), halves);
  }
  return i;
}

#endif

}  // namespace

void to_float(const Float16* in, float* out, std::int64_t count, [[maybe_unused]] Isa isa) {
  std::int64_t i = 0;
#if defined(__x86_64__)
  if (isa >= Isa::kV3) i = widen_f16c(in, out, count);
#endif
  for (; i < count; ++i) out[i] = quiet(hvd::to_float(in[i]));
}

void from_float(const float* in, Float16* out, std::int64_t count, [[maybe_unused]] Isa isa) {
  std::int64_t i = 0;
#if defined(__x86_64__)
  if (isa >= Isa::kV3) i = narrow_f16c(in, out, count);
#endif
  for (; i < count; ++i) out[i] = to_float16(in[i]);
}

void to_float(const BFloat16* in, float* out, std::int64_t count, [[maybe_unused]] Isa isa) {
  std::int64_t i = 0;
#if defined(__x86_64__)
  if (isa >= Isa::kV3) i = widen_avx2(in, out, count);
#endif
  for (; i < count; ++i) out[i] = quiet(hvd::to_float(in[i]));
}

void from_float(const float* in, BFloat16* out, std::int64_t count, [[maybe_unused]] Isa isa) {
  std::int64_t i = 0;
#if defined(__x86_64__)
  if (isa >= Isa::kV3) i = narrow_avx2(in, out, count);
#endif
  for (; i < count; ++i) out[i] = to_bfloat16(in[i]);
}

}  // namespace hvd::engine::host
