#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// Marks functions of single elements, which loops of the host and kernels of devices are made of:
// the same code, so that both give the same bits.
#ifdef __CUDACC__
#define HVD_ELEMENTWISE __host__ __device__ __attribute__((always_inline))
#else
#define HVD_ELEMENTWISE [[gnu::always_inline]]
#endif

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
  kI8 = 7,
  kU16 = 8,
  kI16 = 9,
  kBool = 10,  // one byte, 0 or 1
  kC64 = 11,   // two f32: real, imaginary
  kC128 = 12,  // two f64
};

inline constexpr int kDTypeCount = 13;

constexpr bool is_half(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

// Bytes of one element.
std::size_t size_of(DType dtype);

// NumPy's name: "uint8", "int32", "float16", "bfloat16", "bool", "complex64" and so on.
std::string_view name_of(DType dtype);

// Inverse of name_of. Throws InvalidArgumentError that lists the known names.
DType parse_dtype(std::string_view name);

bool is_floating(DType dtype);
bool is_complex(DType dtype);

}  // namespace hvd
