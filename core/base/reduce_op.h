#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hvd {

// How the ranks' elements become one. Average is the sum divided by the number of ranks that
// contributed (for integers: in float64, then truncated). Adasum: Maleki et al., "Scaling
// Distributed Training with Adaptive Summation" (2020). The first six values are Horovod's.
enum class ReduceOp : std::uint8_t {
  kAverage = 0,
  kSum = 1,
  kAdasum = 2,
  kMin = 3,
  kMax = 4,
  kProduct = 5,
  kBitAnd = 6,  // integers and bool
  kBitOr = 7,   // integers and bool
};

inline constexpr int kReduceOpCount = 8;

constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {"Average", "Sum",     "Adasum", "Min",
                                         "Max",     "Product", "BitAnd", "BitOr"};
  return kNames[static_cast<std::size_t>(op)];
}

}  // namespace hvd
