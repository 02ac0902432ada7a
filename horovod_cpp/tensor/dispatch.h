#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>

#include "core/base/dispatch.h"
#include "core/base/dtype.h"
#include "core/base/half.h"
#include "core/base/status.h"

namespace hvd {

template <typename T>
struct dtype_of;
template <>
struct dtype_of<std::uint8_t> : std::integral_constant<DType, DType::kU8> {};
template <>
struct dtype_of<std::int32_t> : std::integral_constant<DType, DType::kI32> {};
template <>
struct dtype_of<std::int64_t> : std::integral_constant<DType, DType::kI64> {};
template <>
struct dtype_of<Float16> : std::integral_constant<DType, DType::kF16> {};
template <>
struct dtype_of<BFloat16> : std::integral_constant<DType, DType::kBF16> {};
template <>
struct dtype_of<float> : std::integral_constant<DType, DType::kF32> {};
template <>
struct dtype_of<double> : std::integral_constant<DType, DType::kF64> {};
template <>
struct dtype_of<std::int8_t> : std::integral_constant<DType, DType::kI8> {};
template <>
struct dtype_of<std::uint16_t> : std::integral_constant<DType, DType::kU16> {};
template <>
struct dtype_of<std::int16_t> : std::integral_constant<DType, DType::kI16> {};
template <>
struct dtype_of<bool> : std::integral_constant<DType, DType::kBool> {};
template <>
struct dtype_of<std::complex<float>> : std::integral_constant<DType, DType::kC64> {};
template <>
struct dtype_of<std::complex<double>> : std::integral_constant<DType, DType::kC128> {};

// Arithmetic is defined for these; elements of the others are stored, moved, converted and
// communicated.
inline bool has_arithmetic(DType dtype) {
  return is_floating(dtype) || dtype == DType::kU8 || dtype == DType::kI32 || dtype == DType::kI64;
}

inline void require_arithmetic(DType dtype, const char* function) {
  if (has_arithmetic(dtype)) return;
  throw InvalidArgumentError(std::string(function) + ": not defined for dtype " +
                             std::string(name_of(dtype)) + "; convert with to()");
}

// Calls `body(TypeTag<T>{})` with the C++ type of a dtype that has arithmetic. Throws
// InvalidArgumentError naming `function` and any other dtype.
template <typename Body>
decltype(auto) dispatch(DType dtype, const char* function, Body&& body) {
  require_arithmetic(dtype, function);
  switch (dtype) {
    case DType::kU8:
      return body(TypeTag<std::uint8_t>{});
    case DType::kI32:
      return body(TypeTag<std::int32_t>{});
    case DType::kI64:
      return body(TypeTag<std::int64_t>{});
    case DType::kF16:
      return body(TypeTag<Float16>{});
    case DType::kBF16:
      return body(TypeTag<BFloat16>{});
    case DType::kF32:
      return body(TypeTag<float>{});
    default:
      return body(TypeTag<double>{});
  }
}

// The same for the two types that kernels compute in; the caller has checked.
template <typename Body>
decltype(auto) dispatch_float(DType dtype, Body&& body) {
  if (dtype == DType::kF64) return body(TypeTag<double>{});
  return body(TypeTag<float>{});
}

// Half types compute in float.
template <typename T>
struct compute_type {
  using type = T;
};
template <>
struct compute_type<Float16> {
  using type = float;
};
template <>
struct compute_type<BFloat16> {
  using type = float;
};

template <typename T>
inline constexpr bool kIsComplex = false;
template <typename T>
inline constexpr bool kIsComplex<std::complex<T>> = true;

// A complex number has no conversion to a real one: that would drop its imaginary part unsaid.
template <typename To, typename From>
inline constexpr bool kConverts = kIsComplex<To> || !kIsComplex<From>;

// As static_cast does; what is not 0 is true.
template <typename To, typename From>
To convert(From value) {
  static_assert(kConverts<To, From>);
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Float16> || std::is_same_v<From, BFloat16>) {
    return convert<To>(to_float(value));
  } else if constexpr (std::is_same_v<To, Float16>) {
    return to_float16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else if constexpr (kIsComplex<To> && !kIsComplex<From>) {
    return To(static_cast<typename To::value_type>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace hvd
