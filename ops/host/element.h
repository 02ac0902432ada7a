#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/base/dtype.h"
#include "core/base/reduction.h"

// Arithmetic on single elements: the loops of ops/host and the kernels of ops/cuda are made of it,
// so that both give the same bits.
namespace hvd::engine::host {

template <typename T>
constexpr bool kIsComplex = false;
template <typename T>
constexpr bool kIsComplex<std::complex<T>> = true;

// Integers are computed as unsigned ones of at least 32 bits, where overflow wraps around.
template <std::integral T>
using Wrapping = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;

struct Sum {
  template <typename T>
  HVD_ELEMENTWISE static T apply(T a, T b) {
    if constexpr (std::integral<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else if constexpr (kIsComplex<T>) {
      // nvcc compiles libstdc++'s operator+, which adds GCC's __complex__, to no code at all.
      return {a.real() + b.real(), a.imag() + b.imag()};
    } else {
      return a + b;
    }
  }
};

struct Product {
  template <typename T>
  HVD_ELEMENTWISE static T apply(T a, T b) {
    if constexpr (std::integral<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    } else if constexpr (kIsComplex<T>) {
      // The operator of std::complex calls a function that looks for infinities.
      return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
    } else {
      return a * b;
    }
  }
};

template <typename T>
HVD_ELEMENTWISE inline bool is_nan(T value) {
  return value != value;
}

// A NaN on either side wins. `|` rather than `||`: the loop stays free of branches.
struct Min {
  template <typename T>
  HVD_ELEMENTWISE static T apply(T a, T b) {
    return ((a < b) | is_nan(a)) ? a : b;
  }
};

struct Max {
  template <typename T>
  HVD_ELEMENTWISE static T apply(T a, T b) {
    return ((a > b) | is_nan(a)) ? a : b;
  }
};

struct BitAnd {
  template <std::integral T>
  HVD_ELEMENTWISE static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct BitOr {
  template <std::integral T>
  HVD_ELEMENTWISE static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};

// On bytes that are 0 or 1 all of bool's operations are one of two.
constexpr ReduceOp bool_op(ReduceOp op) {
  const bool is_or = op == ReduceOp::kSum || op == ReduceOp::kMax || op == ReduceOp::kBitOr;
  return is_or ? ReduceOp::kBitOr : ReduceOp::kBitAnd;
}

template <typename T>
HVD_ELEMENTWISE inline T scaled(T value, double factor) {
  if constexpr (std::floating_point<T>) {
    return value * static_cast<T>(factor);
  } else if constexpr (kIsComplex<T>) {
    return {scaled(value.real(), factor), scaled(value.imag(), factor)};
  } else {
    using Limits = std::numeric_limits<T>;
    double exact = static_cast<double>(value) * factor;
    // The product with a rounded 1.0 / 49 may lie just below the whole number that it stands for.
    constexpr double kUp = 1 + 0x1p-52;
    if (exact > -0x1p51 && exact < 0x1p51) exact *= kUp;
    // For 64 bits the double next to max() is 2^63, which no longer fits.
    if (exact >= static_cast<double>(Limits::max())) return Limits::max();
    if (exact <= static_cast<double>(Limits::min())) return Limits::min();
    return is_nan(exact) ? T{0} : static_cast<T>(exact);
  }
}

}  // namespace hvd::engine::host
