#pragma once

#include <complex>
#include <concepts>
#include <span>
#include <string>

#include "core/base/status.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/reduce_tile.h"

// From dtypes and operations to the types of the kernels.
namespace hvd::engine::cuda {

// `run` is called as run.template operator()<T>(launch, combine) for each launch.
template <typename T, typename Op, typename Run>
void run_combination(const Reduction& reduction, std::span<const CopyPiece> pieces,
                     const Run& run) {
  const Combination<T, Op> combine{reduction.prescale, reduction.postscale};
  plan_copy(pieces, {sizeof(T), sizeof(T), Vectors<T, T>::kTile},
            [&](const CopyLaunch& launch) { run.template operator()<T>(launch, combine); });
}

template <typename T, typename Run>
void run_operation(const Reduction& reduction, std::span<const CopyPiece> pieces, const Run& run) {
  const ReduceOp op = reduction.op;
  if (op == ReduceOp::kSum) return run_combination<T, host::Sum>(reduction, pieces, run);
  if (op == ReduceOp::kProduct) return run_combination<T, host::Product>(reduction, pieces, run);
  if constexpr (!host::kIsComplex<T>) {
    if (op == ReduceOp::kMin) return run_combination<T, host::Min>(reduction, pieces, run);
    if (op == ReduceOp::kMax) return run_combination<T, host::Max>(reduction, pieces, run);
  }
  if constexpr (std::integral<T>) {
    if (op == ReduceOp::kBitAnd) return run_combination<T, host::BitAnd>(reduction, pieces, run);
    if (op == ReduceOp::kBitOr) return run_combination<T, host::BitOr>(reduction, pieces, run);
  }
  throw InternalError("a reduction by " + std::string(name_of(op)));
}

// reduce_pieces(), except for how a launch is run.
template <typename Run>
void run_reduce(DType dtype, Reduction reduction, const ReduceInputs& inputs,
                std::span<const CopyPiece> pieces, const Run& run) {
  check_reduce(dtype, reduction, inputs);
  switch (dtype) {
    case DType::kBool:
      reduction.op = host::bool_op(reduction.op);
      return run_operation<std::uint8_t>(reduction, pieces, run);
    case DType::kU8:
      return run_operation<std::uint8_t>(reduction, pieces, run);
    case DType::kI8:
      return run_operation<std::int8_t>(reduction, pieces, run);
    case DType::kU16:
      return run_operation<std::uint16_t>(reduction, pieces, run);
    case DType::kI16:
      return run_operation<std::int16_t>(reduction, pieces, run);
    case DType::kI32:
      return run_operation<std::int32_t>(reduction, pieces, run);
    case DType::kI64:
      return run_operation<std::int64_t>(reduction, pieces, run);
    case DType::kF16:
      return run_operation<Float16>(reduction, pieces, run);
    case DType::kBF16:
      return run_operation<BFloat16>(reduction, pieces, run);
    case DType::kF32:
      return run_operation<float>(reduction, pieces, run);
    case DType::kF64:
      return run_operation<double>(reduction, pieces, run);
    case DType::kC64:
      return run_operation<std::complex<float>>(reduction, pieces, run);
    case DType::kC128:
      return run_operation<std::complex<double>>(reduction, pieces, run);
  }
  throw InternalError("a reduction of " + std::string(name_of(dtype)));
}

}  // namespace hvd::engine::cuda
