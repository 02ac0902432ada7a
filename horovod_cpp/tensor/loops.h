#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd::kernels {

// The axes of N operands of one shape, each with strides of its own. Those that all operands cross
// alike are merged, and those of extent 1 left out, so contiguous operands have one at most.
template <std::size_t N>
struct MergedAxes {
  using Steps = std::array<std::int64_t, N>;
  bool empty = false;  // no element at all; then the rest is not filled in
  std::vector<std::int64_t> extents;
  std::vector<Steps> steps;  // of each axis, by operand
};

template <std::size_t N>
MergedAxes<N> merge_axes(const Shape& shape,
                         const std::array<std::vector<std::int64_t>, N>& strides) {
  MergedAxes<N> merged;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    merged.empty = merged.empty || shape[axis] == 0;
    if (merged.empty || shape[axis] == 1) continue;
    typename MergedAxes<N>::Steps step;
    for (std::size_t i = 0; i < N; ++i) step[i] = strides[i][axis];
    bool merges = !merged.extents.empty();
    for (std::size_t i = 0; i < N; ++i) {
      merges = merges && merged.steps.back()[i] == step[i] * shape[axis];
    }
    if (merges) {
      merged.extents.back() *= shape[axis];
      merged.steps.back() = step;
    } else {
      merged.extents.push_back(shape[axis]);
      merged.steps.push_back(step);
    }
  }
  return merged;
}

// Visits N operands of one shape row by row: calls `row(offsets, n, strides)` with each operand's
// offset of the row's first element, the row's length and the operands' steps along it. Merged axes
// make long rows. Row-major order.
template <std::size_t N, typename Row>
void for_each_row(const Shape& shape, const std::array<std::vector<std::int64_t>, N>& strides,
                  Row&& row) {
  using Steps = typename MergedAxes<N>::Steps;
  const auto [empty, extents, steps] = merge_axes<N>(shape, strides);
  if (empty) return;
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

}  // namespace hvd::kernels
