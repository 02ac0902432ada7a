#include "ops/nccl/reduction.h"

#include <cstddef>
#include <optional>
#include <string>

#include "core/base/half.h"
#include "core/base/status.h"

namespace hvd::engine {
namespace {

[[noreturn]] void refuse(const std::string& what, DType dtype) {
  throw UnsupportedError("NCCL has no " + what + " for dtype " + std::string(name_of(dtype)) +
                         "; move the tensor to the host for it");
}

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kU8:
    case DType::kBool:
      return ncclUint8;
    case DType::kI8:
      return ncclInt8;
    case DType::kI32:
      return ncclInt32;
    case DType::kI64:
      return ncclInt64;
    case DType::kF16:
      return ncclFloat16;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF32:
    case DType::kC64:
      return ncclFloat32;
    case DType::kF64:
    case DType::kC128:
      return ncclFloat64;
    case DType::kU16:
    case DType::kI16:
      break;
  }
  refuse("reduction", dtype);
}

// Bools are bytes 0 and 1: their logical or is the maximum, their logical and the minimum.
std::optional<ncclRedOp_t> op_of(DType dtype, ReduceOp op) {
  const bool is_bool = dtype == DType::kBool;
  switch (op) {
    case ReduceOp::kSum:
      return is_bool ? ncclMax : ncclSum;
    case ReduceOp::kProduct:
      if (is_complex(dtype)) return std::nullopt;
      return is_bool ? ncclMin : ncclProd;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kBitAnd:
      return is_bool ? std::optional(ncclMin) : std::nullopt;
    case ReduceOp::kBitOr:
      return is_bool ? std::optional(ncclMax) : std::nullopt;
    case ReduceOp::kAverage:
    case ReduceOp::kAdasum:
      break;
  }
  return std::nullopt;
}

DType travels_as(DType dtype, WireFormat format) {
  switch (format) {
    case WireFormat::kNone:
      return dtype;
    case WireFormat::kF16:
      return DType::kF16;
    case WireFormat::kBF16:
      return DType::kBF16;
    case WireFormat::kInt8:
      break;
  }
  refuse("wire format " + std::string(name_of(format)), dtype);
}

}  // namespace

NcclReduction nccl_reduction(DType dtype, const Reduction& reduction, int size) {
  const DType wire = travels_as(dtype, reduction.wire);
  NcclReduction out{.type = type_of(wire), .factor = is_complex(wire) ? 2u : 1u, .wire = wire};
  const auto op = op_of(dtype, reduction.op);
  if (!op) refuse("reduction " + std::string(name_of(reduction.op)), dtype);
  out.op = *op;
  const double scale = reduction.prescale * reduction.postscale;
  const bool sum = reduction.op == ReduceOp::kSum && wire == dtype;
  if (scale == 1.0 && reduction.prescale == 1.0) return out;
  if (sum && reduction.prescale == 1.0 && reduction.postscale == 1.0 / size) {
    out.op = ncclAvg;
  } else if (sum && (is_floating(dtype) || is_complex(dtype))) {
    out.scale = scale;
  } else {
    out.before = reduction.prescale;
    out.after = reduction.postscale;
  }
  return out;
}

NcclScaledSum::NcclScaledSum(const NcclApi& api, NcclReduction& reduction, ncclComm_t communicator)
    : api_(api), communicator_(communicator) {
  if (reduction.scale == 1.0) return;
  double wide = reduction.scale;
  auto single = static_cast<float>(wide);
  Float16 half = to_float16(single);
  BFloat16 brain = to_bfloat16(single);
  void* scalar = &single;
  if (reduction.type == ncclFloat64) scalar = &wide;
  if (reduction.type == ncclFloat16) scalar = &half;
  if (reduction.type == ncclBfloat16) scalar = &brain;
  check_nccl(api,
             api.red_op_create_pre_mul_sum(&op_, scalar, reduction.type, ncclScalarHostImmediate,
                                           communicator),
             "ncclRedOpCreatePreMulSum", communicator);
  made_ = true;
  reduction.op = op_;
}

NcclScaledSum::~NcclScaledSum() {
  if (made_) api_.red_op_destroy(op_, communicator_);
}

}  // namespace hvd::engine
