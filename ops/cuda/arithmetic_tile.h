#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/base/dtype.h"
#include "core/base/half.h"
#include "ops/cuda/copy_tile.h"
#include "ops/device/operation.h"
#include "ops/device/strided.h"
#include "ops/device/update.h"

// What one thread does to tensors of our own: function objects of a position. It is the same code
// on the host, where the tests run it: see test/gpu/logic.
namespace hvd::engine::cuda {

inline constexpr std::int64_t kEach = 4;  // positions of a thread

// Blocks of kThreads threads for `count` positions, at least one.
inline unsigned tiles_of(std::int64_t count) {
  return static_cast<unsigned>((count - 1) / (kThreads * kEach) + 1);
}

// What thread `thread` of block `tile` does; neighbours get neighbouring positions.
template <typename Apply>
HVD_ELEMENTWISE inline void each_of_tile(std::int64_t count, std::int64_t tile, std::int64_t thread,
                                         const Apply& apply) {
  for (std::int64_t k = 0; k < kEach; ++k) {
    const std::int64_t i = (tile * kEach + k) * kThreads + thread;
    if (i < count) apply(i);
  }
}

// An element of 16 bytes.
struct TwoWords {
  std::uint64_t word[2];
};

template <typename Bits>
struct Fill {
  Strided<1> shape;
  Bits* out;
  Bits element;
  HVD_ELEMENTWISE void operator()(std::int64_t i) const {
    out[offsets_of(shape, i).at[0]] = element;
  }
};

template <typename Bits>
struct PlainCopy {
  Strided<2> shape;
  Bits* out;
  const Bits* in;
  HVD_ELEMENTWISE void operator()(std::int64_t i) const {
    const Offsets<2> offsets = offsets_of(shape, i);
    out[offsets.at[0]] = in[offsets.at[1]];
  }
};

constexpr bool is_whole(DType dtype) {
  return dtype != DType::kF16 && dtype != DType::kBF16 && dtype != DType::kF32 &&
         dtype != DType::kF64 && dtype != DType::kC64 && dtype != DType::kC128;
}

template <typename T>
HVD_ELEMENTWISE inline T element_at(const void* memory, std::int64_t at) {
  return static_cast<const T*>(memory)[at];
}

template <typename T>
HVD_ELEMENTWISE inline void put_at(void* memory, std::int64_t at, T value) {
  static_cast<T*>(memory)[at] = value;
}

HVD_ELEMENTWISE inline std::int64_t load_whole(DType dtype, const void* in, std::int64_t at) {
  switch (dtype) {
    case DType::kI8:
      return element_at<std::int8_t>(in, at);
    case DType::kU16:
      return element_at<std::uint16_t>(in, at);
    case DType::kI16:
      return element_at<std::int16_t>(in, at);
    case DType::kI32:
      return element_at<std::int32_t>(in, at);
    case DType::kI64:
      return element_at<std::int64_t>(in, at);
    default:
      return element_at<std::uint8_t>(in, at);  // and bool
  }
}

struct Complex {
  double real = 0;
  double imag = 0;
};

// Exact for all of them.
HVD_ELEMENTWISE inline Complex load_real(DType dtype, const void* in, std::int64_t at) {
  switch (dtype) {
    case DType::kF16:
      return {static_cast<double>(to_float(element_at<Float16>(in, at))), 0};
    case DType::kBF16:
      return {static_cast<double>(to_float(element_at<BFloat16>(in, at))), 0};
    case DType::kF32:
      return {static_cast<double>(element_at<float>(in, at)), 0};
    case DType::kC64:
      return {static_cast<double>(element_at<float>(in, 2 * at)),
              static_cast<double>(element_at<float>(in, 2 * at + 1))};
    case DType::kC128:
      return {element_at<double>(in, 2 * at), element_at<double>(in, 2 * at + 1)};
    default:
      return {element_at<double>(in, at), 0};
  }
}

// Value is std::int64_t or double.
template <typename Value>
HVD_ELEMENTWISE inline void store(DType dtype, void* out, std::int64_t at, Value value,
                                  double imag) {
  switch (dtype) {
    case DType::kU8:
      return put_at(out, at, static_cast<std::uint8_t>(value));
    case DType::kI8:
      return put_at(out, at, static_cast<std::int8_t>(value));
    case DType::kU16:
      return put_at(out, at, static_cast<std::uint16_t>(value));
    case DType::kI16:
      return put_at(out, at, static_cast<std::int16_t>(value));
    case DType::kI32:
      return put_at(out, at, static_cast<std::int32_t>(value));
    case DType::kI64:
      return put_at(out, at, static_cast<std::int64_t>(value));
    case DType::kBool:
      return put_at(out, at, static_cast<std::uint8_t>(value != Value(0)));
    case DType::kF16:
      return put_at(out, at, to_float16(static_cast<float>(value)));
    case DType::kBF16:
      return put_at(out, at, to_bfloat16(static_cast<float>(value)));
    case DType::kF32:
      return put_at(out, at, static_cast<float>(value));
    case DType::kF64:
      return put_at(out, at, static_cast<double>(value));
    case DType::kC64:
      put_at(out, 2 * at, static_cast<float>(value));
      return put_at(out, 2 * at + 1, static_cast<float>(imag));
    case DType::kC128:
      put_at(out, 2 * at, static_cast<double>(value));
      return put_at(out, 2 * at + 1, imag);
  }
}

// The dtypes are arguments: all threads take the same branch, and one kernel serves them all.
struct ConvertedCopy {
  Strided<2> shape;
  DType to;
  DType from;
  void* out;
  const void* in;
  HVD_ELEMENTWISE void operator()(std::int64_t i) const {
    const Offsets<2> offsets = offsets_of(shape, i);
    if (is_whole(from)) {
      store(to, out, offsets.at[0], load_whole(from, in, offsets.at[1]), 0.0);
    } else {
      const Complex value = load_real(from, in, offsets.at[1]);
      store(to, out, offsets.at[0], value.real, value.imag);
    }
  }
};

template <typename T>
struct UnaryOf {
  Strided<2> shape;
  Unary op;
  T* out;
  const T* in;
  HVD_ELEMENTWISE void operator()(std::int64_t i) const {
    const Offsets<2> offsets = offsets_of(shape, i);
    out[offsets.at[0]] = narrow<T>(element::unary_of(op, widen(in[offsets.at[1]])));
  }
};

template <typename T>
struct BinaryOf {
  Strided<3> shape;
  Binary op;
  T* out;
  const T* a;
  const T* b;
  HVD_ELEMENTWISE void operator()(std::int64_t i) const {
    const Offsets<3> offsets = offsets_of(shape, i);
    if constexpr (std::is_integral_v<T>) {
      out[offsets.at[0]] = element::integer_of(op, a[offsets.at[1]], b[offsets.at[2]]);
    } else {
      out[offsets.at[0]] =
          narrow<T>(element::binary_of(op, widen(a[offsets.at[1]]), widen(b[offsets.at[2]])));
    }
  }
};

template <typename T>
struct AddScaled {
  Strided<2> shape;
  T* out;
  const T* in;
  Accumulator<T> alpha;
  HVD_ELEMENTWISE void operator()(std::int64_t i) const {
    const Offsets<2> offsets = offsets_of(shape, i);
    T& to = out[offsets.at[0]];
    const T by = in[offsets.at[1]];
    if constexpr (std::is_integral_v<T>) {
      to = element::integer_of(Binary::kAdd, to, element::integer_of(Binary::kMul, alpha, by));
    } else {
      to = narrow<T>(widen(to) + alpha * widen(by));
    }
  }
};

template <typename T>
struct Scale {
  Strided<1> shape;
  T* out;
  double factor;
  HVD_ELEMENTWISE void operator()(std::int64_t i) const {
    T& element = out[offsets_of(shape, i).at[0]];
    if constexpr (std::is_floating_point_v<T>) {
      element *= static_cast<T>(factor);
    } else {
      element = narrow<T>(static_cast<double>(widen(element)) * factor);
    }
  }
};

// Position i of `out` is one of `parts` parts of the sum for position i % kept of the result.
template <typename In, typename Out>
struct SumOf {
  SumShape shape;
  std::int64_t parts;
  Out* out;
  const In* in;
  HVD_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t part = i / shape.kept.numel;
    const In* from = in + offsets_of(shape.kept, i - part * shape.kept.numel).at[0];
    if constexpr (std::is_integral_v<In>) {
      std::uint64_t total = 0;
      for (std::int64_t r = part; r < shape.reduced.numel; r += parts) {
        total += static_cast<std::uint64_t>(
            static_cast<std::int64_t>(from[offsets_of(shape.reduced, r).at[0]]));
      }
      out[i] = static_cast<Out>(total);
    } else {
      double total = 0;
      for (std::int64_t r = part; r < shape.reduced.numel; r += parts) {
        total += static_cast<double>(widen(from[offsets_of(shape.reduced, r).at[0]]));
      }
      out[i] = narrow<Out>(total);
    }
  }
};

template <typename T>
struct SgdOf {
  SgdRule<T> rule;
  T* param;
  const T* grad;
  T* buffer;  // or null
  HVD_ELEMENTWISE void operator()(std::int64_t i) const {
    if (buffer == nullptr) {
      element::sgd(rule, param[i], grad[i]);
    } else if (rule.nesterov) {
      element::sgd_with_momentum<true>(rule, param[i], grad[i], buffer[i]);
    } else {
      element::sgd_with_momentum<false>(rule, param[i], grad[i], buffer[i]);
    }
  }
};

template <typename T>
struct AdamOf {
  AdamRule<T> rule;
  T* param;
  const T* grad;
  T* mean;
  T* square;
  T* largest;  // or null
  HVD_ELEMENTWISE void operator()(std::int64_t i) const {
    T s = element::adam_moments(rule, param[i], grad[i], mean[i], square[i]);
    if (largest != nullptr) {
      s = largest[i] < s ? s : largest[i];
      largest[i] = s;
    }
    element::adam_step(rule, param[i], mean[i], std::sqrt(s));
  }
};

}  // namespace hvd::engine::cuda
