#pragma once

#include <complex>
#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/half.h"
#include "core/base/status.h"

namespace hvd {

// What is done for every dtype: HVD_DTYPE(its C++ type, its name). Arithmetic of tensors is defined
// for the first ones; elements of the others are stored, moved, converted and communicated.
#define HVD_ARITHMETIC_DTYPES   \
  HVD_DTYPE(std::uint8_t, kU8)  \
  HVD_DTYPE(std::int32_t, kI32) \
  HVD_DTYPE(std::int64_t, kI64) \
  HVD_DTYPE(Float16, kF16)      \
  HVD_DTYPE(BFloat16, kBF16)    \
  HVD_DTYPE(float, kF32)        \
  HVD_DTYPE(double, kF64)
#define HVD_OTHER_DTYPES               \
  HVD_DTYPE(std::int8_t, kI8)          \
  HVD_DTYPE(std::uint16_t, kU16)       \
  HVD_DTYPE(std::int16_t, kI16)        \
  HVD_DTYPE(bool, kBool)               \
  HVD_DTYPE(std::complex<float>, kC64) \
  HVD_DTYPE(std::complex<double>, kC128)

template <typename T>
struct TypeTag {
  using type = T;
};

// Calls `body(TypeTag<T>{})` with the C++ type of a dtype's elements.
template <typename Body>
decltype(auto) dispatch_any(DType dtype, Body&& body) {
#define HVD_DTYPE(type, name) \
  case DType::name:           \
    return body(TypeTag<type>{});
  switch (dtype) {
    HVD_ARITHMETIC_DTYPES
    HVD_OTHER_DTYPES
  }
#undef HVD_DTYPE
  throw InvalidArgumentError("unknown dtype number ", static_cast<int>(dtype));
}

}  // namespace hvd
