#pragma once

#include <optional>

#include "core/base/reduction.h"
#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Whether an Average or Sum of its gradients over the ranks is one of rows.
bool travels_by_rows(const Tensor& param, ReduceOp op);
// The gradient as rows, all of them if it is a whole one; nothing without one. Memory of the
// gradient's, not a copy.
std::optional<RowGradient> gradient_as_rows(const Tensor& param);
// A gradient of its shape that is zero.
RowGradient no_rows(const Tensor& param);

}  // namespace hvd
