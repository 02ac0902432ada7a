#pragma once

#include <nccl.h>

#include "core/base/reduction.h"
#include "ops/nccl/api.h"

namespace hvd {

// An all-reduce or reduce-scatter as NCCL understands it.
struct NcclReduction {
  ncclDataType_t type = ncclFloat32;
  std::size_t factor = 1;  // NCCL elements in one of ours: a complex number is two
  ncclRedOp_t op = ncclSum;
  double scale = 1.0;  // not 1: of the inputs of a sum, by ncclRedOpCreatePreMulSum
};

// `size`: ranks. NCCL adds in the element type and in an order of its own, so bits may differ from
// those of host memory. Throws UnsupportedError, naming operation and dtype, for what NCCL cannot
// do: Adasum, wire formats, 16-bit integers, bitwise operations on integers, products of complex
// numbers, and scales but of floating sums and of averages.
NcclReduction nccl_reduction(DType dtype, const Reduction& reduction, int size);

// Makes reduction.op of reduction.scale for one group of calls; gives it back when destroyed.
class NcclScaledSum {
 public:
  NcclScaledSum(const NcclApi& api, NcclReduction& reduction, ncclComm_t communicator);
  ~NcclScaledSum();
  NcclScaledSum(const NcclScaledSum&) = delete;
  NcclScaledSum& operator=(const NcclScaledSum&) = delete;

 private:
  const NcclApi& api_;
  ncclComm_t communicator_;
  ncclRedOp_t op_ = ncclSum;
  bool made_ = false;
};

}  // namespace hvd
