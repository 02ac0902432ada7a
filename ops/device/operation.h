#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/base/dtype.h"

// What tensors compute element by element, on the host (horovod_cpp/tensor) and on devices.
namespace hvd::engine {

enum class Unary {
  kNeg,
  kExp,
  kLog,
  kSqrt,
  kTanh,
  kSigmoid,
  kRelu,
  kAbs,
  kSign,  // of NaN: NaN
  kSquare,
  kReciprocal,
  kRsqrt,
  kSin,
  kCos,
  kErf,
  kLog1p,
};

enum class Binary {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,  // a NaN wins, here and in kMinimum
  kMinimum,
  // a is the gradient of the result y, b is y: the gradient of the operand.
  kReluGrad,
  kTanhGrad,
  kSigmoidGrad,
  kSqrtGrad,
};

// Those that integers have.
constexpr bool takes_integers(Binary op) {
  return op == Binary::kAdd || op == Binary::kSub || op == Binary::kMul || op == Binary::kMaximum ||
         op == Binary::kMinimum;
}

// One element. T is float or double, or, in integer_of, an integer type. With a constant operation
// only its formula is left.
namespace element {

template <typename T>
HVD_ELEMENTWISE inline T sign_of(T x) {
  const T nan_or_zero = x == x ? T(0) : x;
  return x > T(0) ? T(1) : (x < T(0) ? T(-1) : nan_or_zero);
}

template <typename T>
HVD_ELEMENTWISE inline T exact_of(Unary op, T x) {
  switch (op) {
    case Unary::kNeg:
      return -x;
    case Unary::kAbs:
      return x < T(0) ? -x : x + T(0);
    case Unary::kSign:
      return sign_of(x);
    case Unary::kSquare:
      return x * x;
    case Unary::kReciprocal:
      return T(1) / x;
    default:
      return x < T(0) ? T(0) : x;  // kRelu; keeps NaN
  }
}

// e^x; what is smaller than any normal number is 0.
template <typename T>
HVD_ELEMENTWISE inline T exp_of(T x) {
  constexpr T kLowest = sizeof(T) == sizeof(float) ? T(-87.3365448) : T(-708.3964185322641);
  return x < kLowest ? T(0) : std::exp(x);
}

// Any operation, with the C library's functions. Loops of the host have faster ones, which may
// differ from these, and these on a device from those on the host, in the last bits; but not the
// operations of exact_of() and the roots.
template <typename T>
HVD_ELEMENTWISE inline T unary_of(Unary op, T x) {
  switch (op) {
    case Unary::kExp:
      return exp_of(x);
    case Unary::kLog:
      return std::log(x);
    case Unary::kSqrt:
      return std::sqrt(x);
    case Unary::kTanh:
      return std::tanh(x);
    case Unary::kSigmoid:
      return T(1) / (T(1) + exp_of(-x));
    case Unary::kRsqrt:
      return T(1) / std::sqrt(x);
    case Unary::kSin:
      return std::sin(x);
    case Unary::kCos:
      return std::cos(x);
    case Unary::kErf:
      return std::erf(x);
    case Unary::kLog1p:
      return std::log1p(x);
    default:
      return exact_of(op, x);
  }
}

template <typename T>
HVD_ELEMENTWISE inline T binary_of(Binary op, T x, T y) {
  switch (op) {
    case Binary::kAdd:
      return x + y;
    case Binary::kSub:
      return x - y;
    case Binary::kMul:
      return x * y;
    case Binary::kDiv:
      return x / y;
    case Binary::kMaximum:
      return x > y || x != x ? x : y;
    case Binary::kMinimum:
      return x < y || x != x ? x : y;
    case Binary::kReluGrad:
      return y <= T(0) ? T(0) : x;  // a NaN lets the gradient through
    case Binary::kTanhGrad:
      return x * (T(1) - y * y);
    case Binary::kSigmoidGrad:
      return x * y * (T(1) - y);
    default:
      return x / (T(2) * y);  // kSqrtGrad
  }
}

// Integer arithmetic wraps, as NumPy's: it is done on unsigned values.
template <typename T>
HVD_ELEMENTWISE inline T integer_of(Binary op, T a, T b) {
  using U = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const U x = static_cast<U>(a);
  const U y = static_cast<U>(b);
  switch (op) {
    case Binary::kAdd:
      return static_cast<T>(x + y);
    case Binary::kSub:
      return static_cast<T>(x - y);
    case Binary::kMaximum:
      return a > b ? a : b;
    case Binary::kMinimum:
      return a < b ? a : b;
    default:
      return static_cast<T>(x * y);
  }
}

}  // namespace element
}  // namespace hvd::engine
