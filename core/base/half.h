#pragma once

#include <bit>
#include <cstdint>

namespace hvd {

// IEEE 754 binary16, stored as its bits. Arithmetic is done in float.
struct Float16 {
  std::uint16_t bits = 0;
};

// The upper half of an IEEE 754 binary32.
struct BFloat16 {
  std::uint16_t bits = 0;
};

constexpr float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
constexpr BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

constexpr float to_float(Float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity or NaN
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude >= 0x0400u) {  // normal: rebias the exponent from 15 to 127
    return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  }
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(subnormal));
}

// Rounds to nearest, ties to even; overflow gives infinity, a NaN stays a (quiet) NaN.
constexpr Float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {
    // Adding 0.5 aligns the subnormal's last bit with the float's last bit: the FPU rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    const std::uint32_t rounded = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
    return {static_cast<std::uint16_t>(sign | rounded)};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | ((rounded - (112u << 23)) >> 13))};
}

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

}  // namespace hvd
