#include "core/base/reduction.h"

#include <string>

#include "core/base/status.h"

namespace hvd {
namespace {

bool has_meaning(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProduct:
      return true;
    case ReduceOp::kAverage:
      return dtype != DType::kBool;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return !is_complex(dtype);
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
      return !is_complex(dtype) && !is_floating(dtype);
    case ReduceOp::kAdasum:
      return is_floating(dtype);
  }
  return false;
}

[[noreturn]] void refuse(const std::string& what, DType dtype) {
  throw InvalidArgumentError(what + " is not defined for dtype " + std::string(name_of(dtype)));
}

void check_wire(DType dtype, const Reduction& reduction) {
  const std::string format = "wire format " + std::string(name_of(reduction.wire));
  if (dtype != DType::kF32 && dtype != DType::kF64) refuse(format, dtype);
  if (reduction.op != ReduceOp::kSum && reduction.op != ReduceOp::kAverage) {
    throw InvalidArgumentError(format + " takes Sum or Average, not " +
                               std::string(name_of(reduction.op)) + " (dtype " +
                               std::string(name_of(dtype)) + ")");
  }
}

}  // namespace

void check_reduction(DType dtype, const Reduction& reduction) {
  if (!has_meaning(reduction.op, dtype)) {
    refuse("reduction " + std::string(name_of(reduction.op)), dtype);
  }
  if (dtype == DType::kBool && (reduction.prescale != 1.0 || reduction.postscale != 1.0)) {
    refuse("a scale (prescale " + std::to_string(reduction.prescale) + ", postscale " +
               std::to_string(reduction.postscale) + ")",
           dtype);
  }
  if (reduction.wire != WireFormat::kNone) check_wire(dtype, reduction);
}

}  // namespace hvd
