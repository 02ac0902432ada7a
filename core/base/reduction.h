#pragma once

#include "core/base/dtype.h"
#include "core/base/reduce_op.h"
#include "core/base/wire_format.h"

namespace hvd {

// What happens to the elements of a reduction: postscale * (prescale * input_0 op prescale *
// input_1 op ...), in rank order, so bitwise equal wherever it is computed. f16 and bf16 accumulate
// in f32 and are rounded once. A scale of an integer is applied in f64, truncated and saturated.
struct Reduction {
  ReduceOp op = ReduceOp::kSum;  // not kAverage in a port: an average is a sum with a postscale
  double prescale = 1.0;
  double postscale = 1.0;
  WireFormat wire = WireFormat::kNone;  // all-reduce only
};

// Throws InvalidArgumentError, naming the op or format and the dtype, when `reduction` has no
// meaning for elements of `dtype`:
//   Sum, Product     every dtype; on bool they are NumPy's: logical or, logical and
//   Average          every dtype but bool
//   Min, Max         all but complex
//   BitAnd, BitOr    integers and bool
//   Adasum           floating dtypes
//   scales           bool takes none (1 is none)
//   wire formats     float32 and float64, by Sum and Average
void check_reduction(DType dtype, const Reduction& reduction);

}  // namespace hvd
