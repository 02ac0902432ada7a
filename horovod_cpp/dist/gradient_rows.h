#pragma once

#include <optional>

#include "core/base/reduce_op.h"
#include "horovod_cpp/autograd/row_gradient.h"

namespace hvd {

// Whether the parameter's gradients are reduced as rows (sparse_allreduce.h): equal on all ranks,
// whatever gradient each has.
bool travels_by_rows(const Tensor& param, ReduceOp op);

// The parameter's gradient as rows, all of them where another use of the parameter made it dense.
// Nothing without a gradient.
std::optional<RowGradient> gradient_as_rows(const Tensor& param);

}  // namespace hvd
