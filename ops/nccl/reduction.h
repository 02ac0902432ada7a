#pragma once

#include <nccl.h>

#include "core/base/reduction.h"
#include "ops/nccl/api.h"

namespace hvd::engine {

// An all-reduce or reduce-scatter as NCCL understands it.
struct NcclReduction {
  ncclDataType_t type = ncclFloat32;
  std::size_t factor = 1;  // NCCL elements in one of ours: a complex number is two
  ncclRedOp_t op = ncclSum;
  double scale = 1.0;  // not 1: of the inputs of a sum, by ncclRedOpCreatePreMulSum
  // What our kernels do on the way into a buffer and out of it, where NCCL cannot.
  DType wire = DType::kF32;  // how the elements travel
  double before = 1.0;
  double after = 1.0;

  // Whether the elements have to be copied into a buffer.
  bool needs_buffer(DType dtype) const { return wire != dtype || before != 1.0 || after != 1.0; }
};

// `size`: ranks. NCCL adds in the type that travels and in an order of its own, so bits may differ
// from those of host memory. Throws UnsupportedError, naming operation and dtype, for what NCCL
// cannot do: Adasum, the wire format int8, 16-bit integers, bitwise operations on integers, and
// products of complex numbers.
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

}  // namespace hvd::engine
