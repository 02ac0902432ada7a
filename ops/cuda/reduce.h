#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "core/base/dtype.h"
#include "core/base/reduction.h"
#include "ops/cuda/copy.h"

namespace hvd::engine {

// What a launch reduces: memory of the same layout for each rank, in rank order.
struct ReduceInputs {
  static constexpr int kMostRanks = 64;

  int ranks = 0;
  int mine = 0;  // the pieces' `from` points into this one
  const std::byte* base[kMostRanks] = {};
};
static_assert(sizeof(CopyLaunch) + sizeof(ReduceInputs) + 64 <= 32764);

// Reduces, element by element, what lies at the place of each piece's `from` in the memory of every
// rank, and writes it to `to`: the bits of host::reduce() except for the payload of NaNs. `to` may
// be exactly `from`, and overlaps inputs nowhere else. Otherwise as copy_pieces(). Throws
// InvalidArgumentError as check_reduction(), for kAverage and kAdasum, and for ranks that are not
// 1 to kMostRanks; PeerLostError when the launch fails.
void reduce_pieces(int device, cudaStream_t stream, DType dtype, const Reduction& reduction,
                   const ReduceInputs& inputs, std::span<const CopyPiece> pieces);

// The checks of reduce_pieces().
void check_reduce(DType dtype, const Reduction& reduction, const ReduceInputs& inputs);

}  // namespace hvd::engine
