#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hvd {

// How elements travel between ranks. Other than as they are: f32 and f64 tensors only, reduced by
// kSum or kAverage. The values are part of the wire format.
enum class WireFormat : std::uint8_t {
  kNone = 0,  // as they are
  kF16 = 1,
  kBF16 = 2,
  kInt8 = 3,  // blocks of 256 elements: one f32 scale, then a signed byte an element
};

inline constexpr int kWireFormatCount = 4;

constexpr std::string_view name_of(WireFormat format) {
  constexpr std::string_view kNames[] = {"none", "fp16", "bf16", "int8"};
  return kNames[static_cast<std::size_t>(format)];
}

}  // namespace hvd
