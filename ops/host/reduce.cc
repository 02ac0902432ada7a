#include "ops/host/reduce.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "core/base/half.h"
#include "core/base/status.h"
#include "ops/host/convert.h"
#include "ops/host/kernels.h"

namespace hvd::host {
namespace {

// Elements that are worked on at a time: two blocks of accumulators (at most 8 KiB each) and the
// piece of the input fit into an L1 cache of 32 KiB.
constexpr std::int64_t kBlock = 1024;

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <typename T>
using Accumulator = std::conditional_t<kIsHalf<T>, float, T>;

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

// One block. `out` is written only after all inputs were read, or in the last elementwise pass, so
// that it may be any of them.
template <typename T>
void reduce_block(const Kernels<Accumulator<T>>& kernel, std::span<const void* const> inputs,
                  std::int64_t first, std::int64_t count, double scale, T* out) {
  using A = Accumulator<T>;
  alignas(64) A sum_block[kBlock];
  alignas(64) A wide_block[kBlock];
  A* result = sum_block;
  if constexpr (!kIsHalf<T>) result = out;
  const auto input = [&](std::size_t i) { return static_cast<const T*>(inputs[i]) + first; };

  const A* sum = widen(input(0), sum_block, count);
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    A* const to = i + 1 == inputs.size() && scale == 1.0 ? result : sum_block;
    kernel.combine(sum, widen(input(i), wide_block, count), to, count);
    sum = to;
  }
  if (scale != 1.0) kernel.scale(sum, scale, result, count);
  if constexpr (kIsHalf<T>) from_float(result, out, count);
}

template <typename T>
void reduce_all(ReduceOp op, std::span<const void* const> inputs, void* out, std::int64_t numel,
                double scale) {
  const auto kernel = kernels<Accumulator<T>>(op);
  if (inputs.size() == 1 && scale == 1.0) {
    if (out != inputs[0] && numel > 0) {
      std::memcpy(out, inputs[0], static_cast<std::size_t>(numel) * sizeof(T));
    }
    return;
  }
  for (std::int64_t first = 0; first < numel; first += kBlock) {
    const std::int64_t count = std::min(kBlock, numel - first);
    reduce_block<T>(kernel, inputs, first, count, scale, static_cast<T*>(out) + first);
  }
}

}  // namespace

void reduce(DType dtype, ReduceOp op, std::span<const void* const> inputs, void* out,
            std::int64_t numel, double scale) {
  if (inputs.empty()) throw InvalidArgumentError("reduce of no inputs");
  if (numel < 0) {
    throw InvalidArgumentError("reduce of a negative number of elements: " + std::to_string(numel));
  }
  switch (dtype) {
    case DType::kU8:
      return reduce_all<std::uint8_t>(op, inputs, out, numel, scale);
    case DType::kI32:
      return reduce_all<std::int32_t>(op, inputs, out, numel, scale);
    case DType::kI64:
      return reduce_all<std::int64_t>(op, inputs, out, numel, scale);
    case DType::kF16:
      return reduce_all<Float16>(op, inputs, out, numel, scale);
    case DType::kBF16:
      return reduce_all<BFloat16>(op, inputs, out, numel, scale);
    case DType::kF32:
      return reduce_all<float>(op, inputs, out, numel, scale);
    case DType::kF64:
      return reduce_all<double>(op, inputs, out, numel, scale);
  }
  throw InvalidArgumentError("reduce of unknown dtype number " +
                             std::to_string(static_cast<int>(dtype)));
}

}  // namespace hvd::host
