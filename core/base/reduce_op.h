#pragma once

#include <cstdint>
#include <string_view>

namespace hvd {

// Average is the sum divided by the number of ranks (for integers: in float64, then truncated).
enum class ReduceOp : std::uint8_t { kAverage = 0, kSum = 1, kMin = 2, kMax = 3, kProduct = 4 };

inline constexpr int kReduceOpCount = 5;

constexpr std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage:
      return "Average";
    case ReduceOp::kSum:
      return "Sum";
    case ReduceOp::kMin:
      return "Min";
    case ReduceOp::kMax:
      return "Max";
    case ReduceOp::kProduct:
      return "Product";
  }
  return "unknown op";
}

}  // namespace hvd
