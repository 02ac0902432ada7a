#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <span>

#include "core/base/dtype.h"

namespace hvd::engine {

// One tensor that is copied between a fused buffer and its own memory: numel elements, one after
// another. `from` and `to` may be exactly the same memory but must not overlap otherwise.
struct CopyPiece {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t numel = 0;
};

// What happens to each element on the way: converted, and scaled by `factor`, as
// ops/cuda/copy_tile.h says. 1 is no scale.
struct CopyRule {
  DType from = DType::kF32;
  DType to = DType::kF32;
  double factor = 1.0;
};

// Throws InvalidArgumentError for a scale of bool, and for a conversion but between f16, bf16, f32
// and f64.
void check_copy(const CopyRule& rule);

// Copies of all pieces on `stream` of `device`, in one launch as long as there are no more than
// CopyLaunch::kMostPieces that are not empty. Pointers are aligned to their dtype, and the pieces'
// memory must live until the stream has passed. Throws as check_copy(), InvalidArgumentError for a
// negative numel, and PeerLostError when the launch fails.
void copy_pieces(int device, cudaStream_t stream, const CopyRule& rule,
                 std::span<const CopyPiece> pieces);

// The argument of one launch: a table of pieces and where each one's tiles begin. A block of
// threads does one tile.
struct CopyLaunch {
  static constexpr int kMostPieces = 1024;

  std::uint32_t pieces = 0;
  std::uint32_t tiles = 0;                // of all pieces: blocks of threads
  std::uint32_t first_tile[kMostPieces];  // of each piece; ascending
  CopyPiece piece[kMostPieces];
};
// Since CUDA 12.1 a kernel takes 32764 bytes of arguments.
static_assert(sizeof(CopyLaunch) <= 32764);

// Bytes of an element on each side, and elements of a tile; all positive.
struct CopySizes {
  std::int64_t from = 1;
  std::int64_t to = 1;
  std::int64_t tile = 1;
};

// Calls `launch` for one table after another until all elements of `pieces` are covered, each once.
// A piece of more tiles than a launch may have is divided. Throws InvalidArgumentError for a
// negative numel.
void plan_copy(std::span<const CopyPiece> pieces, const CopySizes& sizes,
               const std::function<void(const CopyLaunch&)>& launch);

// Tiles of one launch: CUDA counts blocks with an int.
inline constexpr std::uint32_t kMostTiles = std::uint32_t{1} << 30;

}  // namespace hvd::engine
