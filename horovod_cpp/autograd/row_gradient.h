#pragma once

#include <optional>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// A gradient that is zero except in some rows (the first axis): what embedding(sparse = true)
// leaves at its weight, so that a step over a large table touches only the rows that a batch read.
//
// It stays in this form until the whole is asked for: Tensor::grad() turns it into a dense
// gradient. A leaf that has gradient memory or a dense gradient gets a dense gradient at once, and
// so does hvd::grad(). SGD, Adagrad, SparseAdam, clipping and the reductions over ranks keep it.
struct RowGradient {
  Tensor rows;    // int64 [k], ascending, each once
  Tensor values;  // [k, ...]: one row of the leaf's shape for each
};

// The leaf's gradient if it is in this form. InvalidArgumentError: see set_grad_lock().
std::optional<RowGradient> row_gradient(const Tensor& leaf);

// All of the leaf's gradient that is not zero for its form alone: the values of its rows, or
// grad(). Memory of the gradient, not a copy; undefined without one.
Tensor gradient_values(const Tensor& leaf);

// Says that the leaf's gradients come in this form, as nn::Embedding does with `sparse`. Ranks
// agree by it on how the gradient travels, also where one of them has none.
void expect_row_gradients(const Tensor& leaf);
bool expects_row_gradients(const Tensor& leaf);

// Each row once, ascending: the sum of all values that it has, in their order.
RowGradient coalesce(const RowGradient& gradient);

// Adds to the gradient of a leaf that requires grad, or did. `rows` int64 [k] in any order and
// repeated, within the leaf's first axis; `values` [k, ...] of the leaf's dtype.
void add_row_gradient(const Tensor& leaf, const Tensor& rows, const Tensor& values);

}  // namespace hvd
