#include "ops/host/kernels.h"

#include <complex>
#include <concepts>
#include <string>

#include "core/base/status.h"
#include "ops/host/element.h"
#include "ops/host/loops.h"

namespace hvd::host {
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
  throw InvalidArgumentError("reduce has no elementwise operation " + std::string(name_of(op)) +
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

}  // namespace hvd::host
