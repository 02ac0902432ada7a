#pragma once

#include <cstdint>

#include "core/base/dtype.h"

namespace hvd::engine {

// How N operands of one shape are visited: `numel` positions in row-major order, and for each axis
// how far each operand goes along it, in elements. It travels as a kernel's argument.
template <int N>
struct Strided {
  static constexpr int kMostAxes = 8;  // after those that all operands cross alike were merged

  std::int64_t numel = 0;
  int axes = 0;
  std::int64_t extent[kMostAxes] = {};
  std::int64_t step[kMostAxes][N] = {};
};

// How far position i is from the first one, for each operand.
template <int N>
struct Offsets {
  std::int64_t at[N] = {};
};

template <int N>
HVD_ELEMENTWISE inline Offsets<N> offsets_of(const Strided<N>& strided, std::int64_t i) {
  Offsets<N> offsets;
  for (int axis = strided.axes - 1; axis >= 0; --axis) {
    const std::int64_t rest = axis == 0 ? 0 : i / strided.extent[axis];
    const std::int64_t place = i - rest * strided.extent[axis];
    for (int n = 0; n < N; ++n) offsets.at[n] += place * strided.step[axis][n];
    i = rest;
  }
  return offsets;
}

// The sum over some axes of one operand: for each position of `kept`, all of `reduced`.
struct SumShape {
  Strided<1> kept;
  Strided<1> reduced;
};

}  // namespace hvd::engine
