#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

// Visits N operands of one shape, each with strides of its own, row by row: calls
// `row(offsets, n, strides)` with each operand's offset of the row's first element, the row's
// length and the operands' steps along it. Axes that all operands cross alike are merged first, so
// contiguous operands are one row. Row-major order.
template <std::size_t N, typename Row>
void for_each_row(const Shape& shape, const std::array<std::vector<std::int64_t>, N>& strides,
                  Row&& row) {
  using Steps = std::array<std::int64_t, N>;
  std::vector<std::int64_t> extents;
  std::vector<Steps> steps;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 0) return;
    if (shape[axis] == 1) continue;
    Steps step;
    for (std::size_t i = 0; i < N; ++i) step[i] = strides[i][axis];
    bool merges = !extents.empty();
    for (std::size_t i = 0; i < N; ++i) {
      merges = merges && steps.back()[i] == step[i] * shape[axis];
    }
    if (merges) {
      extents.back() *= shape[axis];
      steps.back() = step;
    } else {
      extents.push_back(shape[axis]);
      steps.push_back(step);
    }
  }
  Steps offsets{};
  if (extents.empty()) return row(offsets, std::int64_t{1}, Steps{});
  const std::size_t outer = extents.size() - 1;
  std::vector<std::int64_t> index(outer, 0);
  for (;;) {
    row(offsets, extents[outer], steps[outer]);
    std::size_t axis = outer;
    for (;;) {  // an odometer
      if (axis == 0) return;
      --axis;
      for (std::size_t i = 0; i < N; ++i) offsets[i] += steps[axis][i];
      if (++index[axis] < extents[axis]) break;
      for (std::size_t i = 0; i < N; ++i) offsets[i] -= steps[axis][i] * extents[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace kernels
}  // namespace hvd
