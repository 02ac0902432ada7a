#pragma once

#include <span>
#include <vector>

#include "core/base/status.h"
#include "ops/cuda/copy.h"
#include "ops/cuda/copy_tile.h"

// From dtypes to the types of the kernels.
namespace hvd::engine::cuda {

// `run` is called as run.template operator()<To, From>(launch, apply) for each launch of a copy.
template <typename To, typename From, typename Apply, typename Run>
void run_launches(std::span<const CopyPiece> pieces, const Apply& apply, const Run& run) {
  const CopySizes sizes{sizeof(From), sizeof(To), Vectors<To, From>::kTile};
  plan_copy(pieces, sizes,
            [&](const CopyLaunch& launch) { run.template operator()<To, From>(launch, apply); });
}

template <typename Run>
void run_plain(DType dtype, std::span<const CopyPiece> pieces, const Run& run) {
  switch (size_of(dtype)) {
    case 1:
      return run_launches<std::uint8_t, std::uint8_t>(pieces, Same{}, run);
    case 2:
      return run_launches<std::uint16_t, std::uint16_t>(pieces, Same{}, run);
    case 4:
      return run_launches<std::uint32_t, std::uint32_t>(pieces, Same{}, run);
    default:
      return run_launches<std::uint64_t, std::uint64_t>(pieces, Same{}, run);
  }
}

template <typename T, typename Run>
void run_scaled(std::span<const CopyPiece> pieces, double factor, const Run& run) {
  run_launches<T, T>(pieces, Converted<T>{factor}, run);
}

template <typename From, typename Run>
void run_converted(const CopyRule& rule, std::span<const CopyPiece> pieces, const Run& run) {
  switch (rule.to) {
    case DType::kF16:
      return run_launches<Float16, From>(pieces, Converted<Float16>{rule.factor}, run);
    case DType::kBF16:
      return run_launches<BFloat16, From>(pieces, Converted<BFloat16>{rule.factor}, run);
    case DType::kF64:
      return run_launches<double, From>(pieces, Converted<double>{rule.factor}, run);
    default:
      return run_launches<float, From>(pieces, Converted<float>{rule.factor}, run);
  }
}

// A copy of real elements that is no plain one.
template <typename Run>
void run_computed(const CopyRule& rule, std::span<const CopyPiece> pieces, const Run& run) {
  switch (rule.from) {
    case DType::kF16:
      return run_converted<Float16>(rule, pieces, run);
    case DType::kBF16:
      return run_converted<BFloat16>(rule, pieces, run);
    case DType::kF32:
      return run_converted<float>(rule, pieces, run);
    case DType::kF64:
      return run_converted<double>(rule, pieces, run);
    case DType::kU8:
      return run_scaled<std::uint8_t>(pieces, rule.factor, run);
    case DType::kI8:
      return run_scaled<std::int8_t>(pieces, rule.factor, run);
    case DType::kU16:
      return run_scaled<std::uint16_t>(pieces, rule.factor, run);
    case DType::kI16:
      return run_scaled<std::int16_t>(pieces, rule.factor, run);
    case DType::kI32:
      return run_scaled<std::int32_t>(pieces, rule.factor, run);
    case DType::kI64:
      return run_scaled<std::int64_t>(pieces, rule.factor, run);
    case DType::kBool:  // check_copy() refuses them
    case DType::kC64:
    case DType::kC128:
      break;
  }
  throw InternalError("a copy of " + std::string(name_of(rule.from)) + " that computes");
}

// Complex numbers are two real ones, for copies and for scales.
inline CopyRule real_rule(const CopyRule& rule) {
  if (!is_complex(rule.from)) return rule;
  const DType real = rule.from == DType::kC64 ? DType::kF32 : DType::kF64;
  return {real, real, rule.factor};
}

// copy_pieces(), except for how a launch is run.
template <typename Run>
void run_copy(const CopyRule& asked, std::span<const CopyPiece> asked_pieces, const Run& run) {
  check_copy(asked);
  const CopyRule rule = real_rule(asked);
  std::vector<CopyPiece> pieces(asked_pieces.begin(), asked_pieces.end());
  if (is_complex(asked.from)) {
    for (CopyPiece& piece : pieces) piece.numel *= 2;
  }
  if (rule.from == rule.to && rule.factor == 1.0) return run_plain(rule.from, pieces, run);
  run_computed(rule, pieces, run);
}

}  // namespace hvd::engine::cuda
