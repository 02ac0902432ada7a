#pragma once

#include <optional>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// A gradient that is zero but for some rows (the first axis): what embedding(sparse = true) leaves
// at its weight, so that a step over a large table touches only the rows that a batch read.
//
// It stays in this form until somebody asks for the whole: Tensor::grad() turns it into a dense
// gradient. A leaf that has hooks, gradient memory or a dense gradient (a DistributedOptimizer's
// parameters have) gets a dense gradient at once, and so does hvd::grad().
struct RowGradient {
  Tensor rows;    // int64 [k], ascending, each once
  Tensor values;  // [k, ...]: one row of the leaf's shape for each
};

// The leaf's gradient if it is in this form.
std::optional<RowGradient> row_gradient(const Tensor& leaf);

// Adds to the leaf's gradient. `rows` int64 [k] in any order and repeated, within the leaf's first
// axis; `values` [k, ...] of the leaf's dtype.
void add_row_gradient(const Tensor& leaf, const Tensor& rows, const Tensor& values);

}  // namespace hvd
