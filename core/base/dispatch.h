#pragma once

#include <complex>
#include <cstdint>
#include <string>

#include "core/base/dtype.h"
#include "core/base/half.h"
#include "core/base/status.h"

namespace hvd {

template <typename T>
struct TypeTag {
  using type = T;
};

// Calls `body(TypeTag<T>{})` with the C++ type of a dtype's elements.
template <typename Body>
decltype(auto) dispatch_any(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kU8:
      return body(TypeTag<std::uint8_t>{});
    case DType::kI8:
      return body(TypeTag<std::int8_t>{});
    case DType::kU16:
      return body(TypeTag<std::uint16_t>{});
    case DType::kI16:
      return body(TypeTag<std::int16_t>{});
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
    case DType::kBool:
      return body(TypeTag<bool>{});
    case DType::kC64:
      return body(TypeTag<std::complex<float>>{});
    case DType::kC128:
      return body(TypeTag<std::complex<double>>{});
  }
  throw InvalidArgumentError("unknown dtype number " + std::to_string(static_cast<int>(dtype)));
}

}  // namespace hvd
