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
#define HVD_DTYPE(type, name) \
  template <>                 \
  struct dtype_of<type> : std::integral_constant<DType, DType::name> {};
HVD_ARITHMETIC_DTYPES
HVD_OTHER_DTYPES
#undef HVD_DTYPE

inline bool has_arithmetic(DType dtype) {
  return is_floating(dtype) || dtype == DType::kU8 || dtype == DType::kI32 || dtype == DType::kI64;
}

inline void require_arithmetic(DType dtype, const char* function) {
  if (has_arithmetic(dtype)) return;
  throw InvalidArgumentError(function, ": not defined for dtype ", dtype, "; convert with to()");
}

// The cases of a switch that call `body` with the C++ type.
#define HVD_DTYPE(type, name) \
  case DType::name:           \
    return body(TypeTag<type>{});

// Calls `body(TypeTag<T>{})` with the C++ type of a dtype that has arithmetic. Throws
// InvalidArgumentError naming `function` and any other dtype.
template <typename Body>
decltype(auto) dispatch(DType dtype, const char* function, Body&& body) {
  require_arithmetic(dtype, function);
  switch (dtype) {
    HVD_ARITHMETIC_DTYPES
    default:
      throw InternalError("no such dtype");
  }
}
#undef HVD_DTYPE

// The same for the two types that kernels compute in; the caller has checked.
template <typename Body>
decltype(auto) dispatch_float(DType dtype, Body&& body) {
  if (dtype == DType::kF64) return body(TypeTag<double>{});
  return body(TypeTag<float>{});
}

// Half types compute in float.
template <typename T>
struct compute_type {
  static constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
  using type = std::conditional_t<kIsHalf, float, T>;
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
