#include "ops/host/adasum.h"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>

#include "core/base/half.h"
#include "core/base/status.h"
#include "ops/host/convert.h"
#include "ops/host/loops.h"
#include "ops/host/reduce.h"

namespace hvd::host {
namespace {

// Sums are kept in this many lanes, whatever the CPU's vectors have, and added at the end.
constexpr std::int64_t kLanes = 8;

// Of halves that are widened at a time; a multiple of kLanes.
constexpr std::int64_t kWideBlock = 1024;

struct Lanes {
  double ab[kLanes] = {};
  double aa[kLanes] = {};
  double bb[kLanes] = {};
};

template <typename T>
[[gnu::always_inline]] inline void adasum_multiply_loop(const T* a, const T* b, std::int64_t count,
                                                        Lanes& sums) {
  Lanes local = sums;
  const auto add = [&](std::int64_t i, std::int64_t lane) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    local.ab[lane] += x * y;
    local.aa[lane] += x * x;
    local.bb[lane] += y * y;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  }
  for (; i < count; ++i) add(i, i % kLanes);
  sums = local;
}

template <typename T>
[[gnu::always_inline]] inline void adasum_combine_loop(const T* a, const T* b,
                                                       AdasumWeights weights, T* out,
                                                       std::int64_t count) {
  HVD_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<T>(weights.a * static_cast<double>(a[i]) +
                            weights.b * static_cast<double>(b[i]));
  }
}

double sum_of(const double (&lanes)[kLanes]) {
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// body(first, count, a, b): elements [first, first + count) of both as floats, which it may change.
template <typename T, typename Body>
void for_each_wide_block(const T* a, const T* b, std::int64_t numel, Isa isa, const Body& body) {
  alignas(64) float wide_a[kWideBlock];
  alignas(64) float wide_b[kWideBlock];
  for (std::int64_t first = 0; first < numel; first += kWideBlock) {
    const std::int64_t count = std::min(kWideBlock, numel - first);
    to_float(a + first, wide_a, count, isa);
    to_float(b + first, wide_b, count, isa);
    body(first, count, wide_a, wide_b);
  }
}

template <typename T>
void multiply(const T* a, const T* b, std::int64_t numel, Isa isa, Lanes& sums) {
  if constexpr (kIsHalf<T>) {
    for_each_wide_block(a, b, numel, isa,
                        [&](std::int64_t, std::int64_t count, const float* x, const float* y) {
                          compiled_for<adasum_multiply_loop<float>>(isa)(x, y, count, sums);
                        });
  } else {
    compiled_for<adasum_multiply_loop<T>>(isa)(a, b, numel, sums);
  }
}

template <typename T>
void combine(const T* a, const T* b, AdasumWeights weights, T* out, std::int64_t numel, Isa isa) {
  if constexpr (kIsHalf<T>) {
    for_each_wide_block(a, b, numel, isa,
                        [&](std::int64_t first, std::int64_t count, float* x, const float* y) {
                          compiled_for<adasum_combine_loop<float>>(isa)(x, y, weights, x, count);
                          from_float(x, out + first, count, isa);
                        });
  } else {
    compiled_for<adasum_combine_loop<T>>(isa)(a, b, weights, out, numel);
  }
}

// Calls `body` with a null pointer of the dtype's type.
template <typename Body>
void dispatch(DType dtype, const Body& body) {
  if (dtype == DType::kF16) return body(static_cast<Float16*>(nullptr));
  if (dtype == DType::kBF16) return body(static_cast<BFloat16*>(nullptr));
  if (dtype == DType::kF32) return body(static_cast<float*>(nullptr));
  if (dtype == DType::kF64) return body(static_cast<double*>(nullptr));
  throw InvalidArgumentError("reduction Adasum is not defined for dtype " +
                             std::string(name_of(dtype)));
}

double weight(double ab, double squared_norm) {
  if (squared_norm < std::numeric_limits<double>::min()) return 1.0;
  return 1.0 - ab / (2 * squared_norm);
}

}  // namespace

AdasumProducts& AdasumProducts::operator+=(const AdasumProducts& other) {
  ab += other.ab;
  aa += other.aa;
  bb += other.bb;
  return *this;
}

AdasumProducts adasum_products(DType dtype, const void* a, const void* b, std::int64_t numel,
                               Isa isa) {
  Lanes sums;
  dispatch(dtype, [&]<typename T>(T*) {
    multiply(static_cast<const T*>(a), static_cast<const T*>(b), numel, isa, sums);
  });
  return {sum_of(sums.ab), sum_of(sums.aa), sum_of(sums.bb)};
}

AdasumWeights adasum_weights(const AdasumProducts& whole) {
  return {weight(whole.ab, whole.aa), weight(whole.ab, whole.bb)};
}

void adasum_combine(DType dtype, const void* a, const void* b, AdasumWeights weights, void* out,
                    std::int64_t numel, Isa isa) {
  dispatch(dtype, [&]<typename T>(T*) {
    combine(static_cast<const T*>(a), static_cast<const T*>(b), weights, static_cast<T*>(out),
            numel, isa);
  });
}

std::vector<std::vector<AdasumPair>> adasum_levels(int size) {
  std::vector<std::vector<AdasumPair>> levels;
  for (int distance = 1; distance < size; distance *= 2) {
    auto& pairs = levels.emplace_back();
    for (int left = 0; left + distance < size; left += 2 * distance) {
      pairs.push_back({left, left + distance});
    }
  }
  return levels;
}

void adasum(DType dtype, std::span<const void* const> inputs, void* out, std::int64_t numel,
            double prescale, double postscale) {
  if (inputs.empty()) throw InvalidArgumentError("adasum of no inputs");
  const std::size_t bytes = static_cast<std::size_t>(numel) * size_of(dtype);
  std::vector<std::vector<std::byte>> vectors(inputs.size(), std::vector<std::byte>(bytes));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    reduce(dtype, ReduceOp::kSum, inputs.subspan(i, 1), vectors[i].data(), numel, prescale, 1.0);
  }
  for (const auto& level : adasum_levels(static_cast<int>(inputs.size()))) {
    for (const auto& [left, right] : level) {
      void* const a = vectors[static_cast<std::size_t>(left)].data();
      const void* const b = vectors[static_cast<std::size_t>(right)].data();
      const AdasumWeights weights = adasum_weights(adasum_products(dtype, a, b, numel));
      adasum_combine(dtype, a, b, weights, a, numel);
    }
  }
  const void* const result = vectors[0].data();
  reduce(dtype, ReduceOp::kSum, {&result, 1}, out, numel, 1.0, postscale);
}

}  // namespace hvd::host
