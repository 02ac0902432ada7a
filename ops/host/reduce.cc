#include "ops/host/reduce.h"

#include <algorithm>
#include <complex>
#include <concepts>
#include <cstring>
#include <type_traits>

#include "core/base/dispatch.h"
#include "core/base/half.h"
#include "core/base/reduction.h"
#include "core/base/status.h"
#include "ops/host/convert.h"
#include "ops/host/element.h"
#include "ops/host/loops.h"

namespace hvd::engine::host {

namespace {

// HVD_INDEPENDENT: memory is disjoint or exactly the same.
template <typename Op, typename T>
[[gnu::always_inline]] inline void combine_loop(const T* a, const T* b, T* out,
                                                std::int64_t count) {
  HVD_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) out[i] = Op::apply(a[i], b[i]);
}

template <typename T>
[[gnu::always_inline]] inline void scale_loop(const T* in, double factor, T* out,
                                              std::int64_t count) {
  HVD_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) out[i] = scaled(in[i], factor);
}

template <typename Op, typename T>
[[gnu::always_inline]] inline void combine_scaled_loop(const T* a, const T* b, double factor,
                                                       T* out, std::int64_t count) {
  HVD_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) out[i] = scaled(Op::apply(a[i], b[i]), factor);
}

template <typename Op, typename T>
Kernels<T> kernels_of(Isa isa) {
  return {compiled_for<combine_loop<Op, T>>(isa), compiled_for<scale_loop<T>>(isa),
          compiled_for<combine_scaled_loop<Op, T>>(isa)};
}

}  // namespace

template <typename T>
Kernels<T> kernels(ReduceOp op, Isa isa) {
  if (op == ReduceOp::kSum) return kernels_of<Sum, T>(isa);
  if (op == ReduceOp::kProduct) return kernels_of<Product, T>(isa);
  if constexpr (!kIsComplex<T>) {
    if (op == ReduceOp::kMin) return kernels_of<Min, T>(isa);
    if (op == ReduceOp::kMax) return kernels_of<Max, T>(isa);
  }
  if constexpr (std::integral<T>) {
    if (op == ReduceOp::kBitAnd) return kernels_of<BitAnd, T>(isa);
    if (op == ReduceOp::kBitOr) return kernels_of<BitOr, T>(isa);
  }
  throw InvalidArgumentError("reduce has no elementwise operation ", name_of(op),
                             " for this dtype (an average is a sum with a scale)");
}

template Kernels<std::uint8_t> kernels(ReduceOp, Isa);
template Kernels<std::int8_t> kernels(ReduceOp, Isa);
template Kernels<std::uint16_t> kernels(ReduceOp, Isa);
template Kernels<std::int16_t> kernels(ReduceOp, Isa);
template Kernels<std::int32_t> kernels(ReduceOp, Isa);
template Kernels<std::int64_t> kernels(ReduceOp, Isa);
template Kernels<float> kernels(ReduceOp, Isa);
template Kernels<double> kernels(ReduceOp, Isa);
template Kernels<std::complex<float>> kernels(ReduceOp, Isa);
template Kernels<std::complex<double>> kernels(ReduceOp, Isa);

namespace {

template <typename T>
using Accumulator = std::conditional_t<kIsHalf<T>, float, T>;

// Elements that are worked on at a time: two blocks of accumulators of 8 KiB and the piece of the
// input fit into an L1 cache of 32 KiB.
template <typename T>
constexpr std::int64_t kBlock = 8192 / sizeof(Accumulator<T>);

struct Scales {
  double before;
  double after;
};

// The elements as accumulators: converted into `scratch` if they are halves, else where they are.
template <typename T>
const Accumulator<T>* widen(const T* in, Accumulator<T>* scratch, std::int64_t count) {
  if constexpr (kIsHalf<T>) {
    to_float(in, scratch, count);
    return scratch;
  } else {
    return in;
  }
}

// One block. `out` is written in the last elementwise pass, so that it may be any of the inputs.
template <typename T>
void reduce_block(const Kernels<Accumulator<T>>& kernel, std::span<const void* const> inputs,
                  std::int64_t first, std::int64_t count, Scales scales, T* out) {
  using A = Accumulator<T>;
  alignas(64) A sum_block[kBlock<T>];
  alignas(64) A wide_block[kBlock<T>];
  A* result = sum_block;
  if constexpr (!kIsHalf<T>) result = out;
  const auto load = [&](std::size_t i, A* scratch) -> const A* {
    const A* const wide = widen(static_cast<const T*>(inputs[i]) + first, scratch, count);
    if (scales.before == 1.0) return wide;
    kernel.scale(wide, scales.before, scratch, count);
    return scratch;
  };

  const std::size_t last = inputs.size() - 1;
  const A* sum = load(0, sum_block);
  for (std::size_t i = 1; i < last; ++i) {
    kernel.combine(sum, load(i, wide_block), sum_block, count);
    sum = sum_block;
  }
  if (last > 0 && scales.after != 1.0) {
    kernel.combine_scaled(sum, load(last, wide_block), scales.after, result, count);
  } else if (last > 0) {
    kernel.combine(sum, load(last, wide_block), result, count);
  } else if (scales.after != 1.0) {
    kernel.scale(sum, scales.after, result, count);
  } else if (sum != result) {  // it had a prescale
    std::copy_n(sum, count, result);
  }
  if constexpr (kIsHalf<T>) from_float(result, out, count);
}

template <typename T>
void reduce_all(ReduceOp op, std::span<const void* const> inputs, void* out, std::int64_t numel,
                Scales scales) {
  const auto kernel = kernels<Accumulator<T>>(op);
  if (inputs.size() == 1 && scales.before == 1.0 && scales.after == 1.0) {
    if (out != inputs[0] && numel > 0) {
      std::memcpy(out, inputs[0], static_cast<std::size_t>(numel) * sizeof(T));
    }
    return;
  }
  for (std::int64_t first = 0; first < numel; first += kBlock<T>) {
    const std::int64_t count = std::min(kBlock<T>, numel - first);
    reduce_block<T>(kernel, inputs, first, count, scales, static_cast<T*>(out) + first);
  }
}

void check(DType dtype, ReduceOp op, std::size_t inputs, std::int64_t numel, Scales scales) {
  if (inputs == 0) throw InvalidArgumentError("reduce of no inputs");
  if (numel < 0) throw InvalidArgumentError("reduce of a negative number of elements: ", numel);
  if (op == ReduceOp::kAverage || op == ReduceOp::kAdasum) {
    throw InvalidArgumentError("reduce takes an elementwise operation, not ", name_of(op));
  }
  check_reduction(dtype, {.op = op, .prescale = scales.before, .postscale = scales.after});
}

}  // namespace

void reduce(DType dtype, ReduceOp op, std::span<const void* const> inputs, void* out,
            std::int64_t numel, double prescale, double postscale) {
  const Scales scales{prescale, postscale};
  check(dtype, op, inputs.size(), numel, scales);
  dispatch_any(dtype, [&]<typename T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, bool>) {
      reduce_all<std::uint8_t>(bool_op(op), inputs, out, numel, scales);
    } else {
      reduce_all<T>(op, inputs, out, numel, scales);
    }
  });
}

}  // namespace hvd::engine::host
