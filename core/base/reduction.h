#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/dtype.h"

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

// How elements travel between ranks. Other than as they are: f32 and f64 tensors only, reduced by
// kSum or kAverage. The values are part of the wire format.
enum class WireFormat : std::uint8_t {
  kNone = 0,  // as they are
  kF16 = 1,
  kBF16 = 2,
  kInt8 = 3,  // blocks of 256 elements: one f32 scale, then a signed byte an element
};

inline constexpr int kWireFormatCount = 4;

constexpr std::string_view name_of(WireFormat format) {
  constexpr std::string_view kNames[] = {"none", "fp16", "bf16", "int8"};
  return kNames[static_cast<std::size_t>(format)];
}

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

// Fills `numel` elements of host memory with the value that changes no reduction by `op`: 0 for
// sums (Average and Adasum are ones), 1 for a product, the type's largest value for a minimum and
// its smallest for a maximum (infinities where the type has them), all ones for BitAnd, 0 for
// BitOr. Throws InvalidArgumentError where the operation is undefined for the type: an order of
// complex numbers, bits of floating-point numbers.
void fill_neutral(ReduceOp op, DType dtype, void* data, std::int64_t numel);

}  // namespace hvd
