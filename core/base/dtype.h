#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hvd {

// Element types of tensors, on the wire and in memory. The values are part of the wire format.
enum class DType : std::uint8_t {
  kU8 = 0,
  kI32 = 1,
  kI64 = 2,
  kF16 = 3,
  kBF16 = 4,
  kF32 = 5,
  kF64 = 6,
};

inline constexpr int kDTypeCount = 7;

// Bytes of one element.
std::size_t size_of(DType dtype);

// NumPy's name: "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64".
std::string_view name_of(DType dtype);

// Inverse of name_of. Throws InvalidArgumentError that lists the known names.
DType parse_dtype(std::string_view name);

bool is_floating(DType dtype);

}  // namespace hvd
