#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/reduce_op.h"

namespace hvd {

// Fills `numel` elements of host memory with the value that changes no reduction by `op`: 0 for
// sums (Average and Adasum are ones), 1 for a product, the type's largest value for a minimum and
// its smallest for a maximum (infinities where the type has them), all ones for BitAnd, 0 for
// BitOr. Throws InvalidArgumentError where the operation means nothing for the type: an order of
// complex numbers, bits of floating-point numbers.
void fill_neutral(ReduceOp op, DType dtype, void* data, std::int64_t numel);

}  // namespace hvd
