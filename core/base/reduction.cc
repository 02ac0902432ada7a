#include "core/base/reduction.h"

#include <algorithm>
#include <complex>
#include <limits>
#include <string>
#include <type_traits>

#include "core/base/dispatch.h"
#include "core/base/half.h"
#include "core/base/status.h"

namespace hvd {
namespace {

bool has_meaning(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProduct:
      return true;
    case ReduceOp::kAverage:
      return dtype != DType::kBool;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return !is_complex(dtype);
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
      return !is_complex(dtype) && !is_floating(dtype);
    case ReduceOp::kAdasum:
      return is_floating(dtype);
  }
  return false;
}

[[noreturn]] void refuse(const std::string& what, DType dtype) {
  throw InvalidArgumentError(what + " is not defined for dtype " + std::string(name_of(dtype)));
}

void check_wire(DType dtype, const Reduction& reduction) {
  const std::string format = "wire format " + std::string(name_of(reduction.wire));
  if (dtype != DType::kF32 && dtype != DType::kF64) refuse(format, dtype);
  if (reduction.op != ReduceOp::kSum && reduction.op != ReduceOp::kAverage) {
    throw InvalidArgumentError(format + " takes Sum or Average, not " +
                               std::string(name_of(reduction.op)) + " (dtype " +
                               std::string(name_of(dtype)) + ")");
  }
}

}  // namespace

void check_reduction(DType dtype, const Reduction& reduction) {
  if (!has_meaning(reduction.op, dtype)) {
    refuse("reduction " + std::string(name_of(reduction.op)), dtype);
  }
  if (dtype == DType::kBool && (reduction.prescale != 1.0 || reduction.postscale != 1.0)) {
    refuse("a scale (prescale " + std::to_string(reduction.prescale) + ", postscale " +
               std::to_string(reduction.postscale) + ")",
           dtype);
  }
  if (reduction.wire != WireFormat::kNone) check_wire(dtype, reduction);
}

namespace {

[[noreturn]] void refuse(ReduceOp op, DType dtype) {
  throw InvalidArgumentError(std::string(name_of(op)) + " is undefined for " +
                             std::string(name_of(dtype)));
}

template <typename T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

template <typename T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else {
    return T(value);
  }
}

template <typename T>
T largest() {
  using Limits = std::numeric_limits<T>;
  return Limits::has_infinity ? Limits::infinity() : Limits::max();
}

template <typename T>
T smallest() {
  using Limits = std::numeric_limits<T>;
  return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}

template <typename T>
T extreme(ReduceOp op, DType dtype) {
  const bool largest_of_all = op == ReduceOp::kMin;
  if constexpr (kIsComplex<T>) {
    refuse(op, dtype);
  } else if constexpr (kIsHalf<T>) {
    return from_float<T>(largest_of_all ? largest<float>() : smallest<float>());
  } else {
    return largest_of_all ? largest<T>() : smallest<T>();
  }
}

template <typename T>
T neutral(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
    case ReduceOp::kAdasum:
      return T{};
    case ReduceOp::kProduct:
      return from_float<T>(1.0f);
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return extreme<T>(op, dtype);
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
      if constexpr (std::is_same_v<T, bool>) {
        return op == ReduceOp::kBitAnd;
      } else if constexpr (std::is_integral_v<T>) {
        return op == ReduceOp::kBitAnd ? static_cast<T>(~T{0}) : T{0};
      }
      break;
  }
  refuse(op, dtype);
}

}  // namespace

void fill_neutral(ReduceOp op, DType dtype, void* data, std::int64_t numel) {
  dispatch_any(dtype, [&]<typename T>(TypeTag<T>) {
    std::fill_n(static_cast<T*>(data), numel, neutral<T>(op, dtype));
  });
}

}  // namespace hvd
