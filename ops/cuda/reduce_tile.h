#pragma once

#include "ops/cuda/copy_tile.h"
#include "ops/cuda/reduce.h"
#include "ops/host/element.h"

// What one thread does in a reduction; the same code on the host, as copy_tile.h.
namespace hvd::engine::cuda {

// Combines elements of all ranks as host::reduce() does: a scale of 1 is none.
template <typename T, typename Op>
struct Combination {
  double before;
  double after;

  HVD_ELEMENTWISE Accumulator<T> first(T value) const {
    const Accumulator<T> wide = widen(value);
    return before == 1.0 ? wide : host::scaled(wide, before);
  }
  HVD_ELEMENTWISE Accumulator<T> next(Accumulator<T> sum, T value) const {
    return Op::apply(sum, first(value));
  }
  HVD_ELEMENTWISE T last(Accumulator<T> sum) const {
    return narrow<T>(after == 1.0 ? sum : host::scaled(sum, after));
  }
};

// Element `i` behind `offset` bytes of every rank's memory.
template <typename T, typename Combine>
HVD_ELEMENTWISE inline T reduced(const ReduceInputs& inputs, std::int64_t offset, std::int64_t i,
                                 const Combine& combine) {
  auto sum = combine.first(reinterpret_cast<const T*>(inputs.base[0] + offset)[i]);
  for (int rank = 1; rank < inputs.ranks; ++rank) {
    sum = combine.next(sum, reinterpret_cast<const T*>(inputs.base[rank] + offset)[i]);
  }
  return combine.last(sum);
}

// Vector `i` of them.
template <typename T, typename Combine>
HVD_ELEMENTWISE inline auto reduced_vector(const ReduceInputs& inputs, std::int64_t offset,
                                           std::int64_t i, const Combine& combine) {
  using V = Vectors<T, T>;
  using Pack = typename V::template Pack<T>;
  Accumulator<T> sum[V::kWidth];
  Pack loaded = reinterpret_cast<const Pack*>(inputs.base[0] + offset)[i];
  for (std::int64_t e = 0; e < V::kWidth; ++e) sum[e] = combine.first(loaded.element[e]);
  for (int rank = 1; rank < inputs.ranks; ++rank) {
    loaded = reinterpret_cast<const Pack*>(inputs.base[rank] + offset)[i];
    for (std::int64_t e = 0; e < V::kWidth; ++e) {
      sum[e] = combine.next(sum[e], loaded.element[e]);
    }
  }
  for (std::int64_t e = 0; e < V::kWidth; ++e) loaded.element[e] = combine.last(sum[e]);
  return loaded;
}

// The part of `thread` in a range of up to kTile elements. Ranks' memory is aligned alike.
template <typename T, typename Combine>
HVD_ELEMENTWISE inline void reduce_range(const ReduceInputs& inputs, const T* from, T* to,
                                         std::int64_t count, std::int64_t thread,
                                         const Combine& combine) {
  using V = Vectors<T, T>;
  using Pack = typename V::template Pack<T>;
  const std::int64_t offset = reinterpret_cast<const std::byte*>(from) - inputs.base[inputs.mine];
  const std::int64_t head = V::head(from, to, count);
  const std::int64_t vectors = (count - head) / V::kWidth;
  const std::int64_t behind_head = offset + head * static_cast<std::int64_t>(sizeof(T));
  auto* out = reinterpret_cast<Pack*>(to + head);
  for (std::int64_t i = thread; i < vectors; i += kThreads) {
    out[i] = reduced_vector<T>(inputs, behind_head, i, combine);
  }
  const std::int64_t tail = head + vectors * V::kWidth;
  for (std::int64_t i = thread; i < head; i += kThreads) {
    to[i] = reduced<T>(inputs, offset, i, combine);
  }
  for (std::int64_t i = tail + thread; i < count; i += kThreads) {
    to[i] = reduced<T>(inputs, offset, i, combine);
  }
}

// What thread `thread` of block `tile` does.
template <typename T, typename Combine>
HVD_ELEMENTWISE inline void reduce_tile(const CopyLaunch& launch, const ReduceInputs& inputs,
                                        std::uint32_t tile, std::int64_t thread,
                                        const Combine& combine) {
  constexpr std::int64_t kTile = Vectors<T, T>::kTile;
  const std::uint32_t number = piece_of(launch, tile);
  const CopyPiece& piece = launch.piece[number];
  const std::int64_t begin = (tile - launch.first_tile[number]) * kTile;
  const std::int64_t left = piece.numel - begin;
  const std::int64_t count = left < kTile ? left : kTile;
  reduce_range(inputs, static_cast<const T*>(piece.from) + begin, static_cast<T*>(piece.to) + begin,
               count, thread, combine);
}

}  // namespace hvd::engine::cuda
