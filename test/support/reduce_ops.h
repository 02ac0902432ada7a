#pragma once

#include <vector>

#include "core/base/dtype.h"
#include "core/base/reduction.h"

namespace hvd::engine::test {

// The elementwise operations that a dtype has.
inline std::vector<ReduceOp> elementwise_ops(DType dtype) {
  std::vector<ReduceOp> ops = {ReduceOp::kSum, ReduceOp::kProduct};
  if (dtype == DType::kC64 || dtype == DType::kC128) return ops;
  ops.insert(ops.end(), {ReduceOp::kMin, ReduceOp::kMax});
  if (!is_floating(dtype)) ops.insert(ops.end(), {ReduceOp::kBitAnd, ReduceOp::kBitOr});
  return ops;
}

}  // namespace hvd::engine::test
