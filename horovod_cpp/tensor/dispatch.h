#pragma once

#include <string>
#include <type_traits>

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

template <typename T>
struct TypeTag {
  using type = T;
};

// Calls `body(TypeTag<T>{})` with the dtype's C++ type.
template <typename Body>
decltype(auto) dispatch(DType dtype, Body&& body) {
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
    case DType::kF64:
      return body(TypeTag<double>{});
  }
  throw InternalError("unknown dtype number " + std::to_string(static_cast<int>(dtype)));
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

template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Float16> || std::is_same_v<From, BFloat16>) {
    return convert<To>(to_float(value));
  } else if constexpr (std::is_same_v<To, Float16>) {
    return to_float16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace hvd
