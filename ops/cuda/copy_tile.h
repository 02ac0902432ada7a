#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/base/half.h"
#include "ops/cuda/copy.h"
#include "ops/host/element.h"

// What one thread does in a copy. It is the same code on the host, where the tests run it: see
// test/gpu/logic.
namespace hvd::engine::cuda {

inline constexpr std::int64_t kThreads = 256;  // of a block
inline constexpr std::int64_t kUnroll = 4;     // vectors that a thread has under way

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// What elements are computed in: f32 for halves, else themselves.
template <typename T>
using Accumulator = std::conditional_t<kIsHalf<T>, float, T>;

template <typename T>
HVD_ELEMENTWISE inline Accumulator<T> widen(T value) {
  if constexpr (kIsHalf<T>) {
    return to_float(value);
  } else {
    return value;
  }
}

// Rounds to nearest, ties to even; from f64 to a half by way of f32.
template <typename T, typename Wide>
HVD_ELEMENTWISE inline T narrow(Wide value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// Scaled in the wider of the two types, so that a scale loses nothing to a narrow one.
template <typename To, typename From>
HVD_ELEMENTWISE inline To converted(From value, double factor) {
  if constexpr (std::is_same_v<To, double> && !std::is_same_v<From, double>) {
    return host::scaled(static_cast<double>(widen(value)), factor);
  } else if constexpr (std::is_same_v<To, From> && !kIsHalf<From>) {
    return host::scaled(value, factor);
  } else {
    return narrow<To>(host::scaled(widen(value), factor));
  }
}

// How the elements of a range are visited: in vectors of 16 bytes where both sides are aligned to
// them, the rest one by one.
template <typename To, typename From>
struct Vectors {
  static constexpr std::int64_t kWidth =
      16 / static_cast<std::int64_t>(std::max(sizeof(To), sizeof(From)));
  static constexpr std::int64_t kTile = kThreads * kUnroll * kWidth;  // elements

  template <typename T>
  struct alignas(sizeof(T) * static_cast<std::size_t>(kWidth)) Pack {
    T element[kWidth];
  };

  template <typename T>
  HVD_ELEMENTWISE static bool is_aligned(const T* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(Pack<T>) == 0;
  }

  // Elements before the first vector; `count` if there is none.
  HVD_ELEMENTWISE static std::int64_t head(const From* from, const To* to, std::int64_t count) {
    for (std::int64_t i = 0; i < kWidth && i < count; ++i) {
      if (is_aligned(from + i) && is_aligned(to + i)) return i;
    }
    return count;
  }
};

// The part of `thread` in a range of up to kTile elements. `apply` makes one element of another.
template <typename To, typename From, typename Apply>
HVD_ELEMENTWISE inline void copy_range(const From* from, To* to, std::int64_t count,
                                       std::int64_t thread, const Apply& apply) {
  using V = Vectors<To, From>;
  using FromPack = typename V::template Pack<From>;
  using ToPack = typename V::template Pack<To>;
  const std::int64_t head = V::head(from, to, count);
  const std::int64_t vectors = (count - head) / V::kWidth;
  const auto* in = reinterpret_cast<const FromPack*>(from + head);
  auto* out = reinterpret_cast<ToPack*>(to + head);
  FromPack loaded[kUnroll] = {};
  for (std::int64_t k = 0; k < kUnroll; ++k) {
    const std::int64_t i = thread + k * kThreads;
    if (i < vectors) loaded[k] = in[i];
  }
  for (std::int64_t k = 0; k < kUnroll; ++k) {
    const std::int64_t i = thread + k * kThreads;
    if (i >= vectors) break;
    ToPack made;
    for (std::int64_t e = 0; e < V::kWidth; ++e) made.element[e] = apply(loaded[k].element[e]);
    out[i] = made;
  }
  const std::int64_t tail = head + vectors * V::kWidth;
  for (std::int64_t i = thread; i < head; i += kThreads) to[i] = apply(from[i]);
  for (std::int64_t i = tail + thread; i < count; i += kThreads) to[i] = apply(from[i]);
}

// The piece that `tile` is part of: the last one whose first tile is not behind it.
HVD_ELEMENTWISE inline std::uint32_t piece_of(const CopyLaunch& launch, std::uint32_t tile) {
  std::uint32_t low = 0;
  std::uint32_t high = launch.pieces;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (launch.first_tile[middle] <= tile) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// What thread `thread` of block `tile` does.
template <typename To, typename From, typename Apply>
HVD_ELEMENTWISE inline void copy_tile(const CopyLaunch& launch, std::uint32_t tile,
                                      std::int64_t thread, const Apply& apply) {
  constexpr std::int64_t kTile = Vectors<To, From>::kTile;
  const std::uint32_t number = piece_of(launch, tile);
  const CopyPiece& piece = launch.piece[number];
  const std::int64_t begin = (tile - launch.first_tile[number]) * kTile;
  const std::int64_t left = piece.numel - begin;
  const std::int64_t count = left < kTile ? left : kTile;
  copy_range(static_cast<const From*>(piece.from) + begin, static_cast<To*>(piece.to) + begin,
             count, thread, apply);
}

struct Same {
  template <typename T>
  HVD_ELEMENTWISE T operator()(T value) const {
    return value;
  }
};

template <typename To>
struct Converted {
  double factor;
  template <typename From>
  HVD_ELEMENTWISE To operator()(From value) const {
    return converted<To>(value, factor);
  }
};

}  // namespace hvd::engine::cuda
