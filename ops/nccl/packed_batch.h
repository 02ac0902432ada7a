#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ports/collective.h"
#include "ops/cuda/copy.h"
#include "ops/nccl/reduction.h"

namespace hvd::engine {

// A fused all-reduce as one tensor: copied into a buffer and back in one launch each, converted to
// the dtype it travels in and scaled on the way.
class PackedBatch {
 public:
  // Bytes that these slices, whose dtype is equal, take in a buffer, in dtype `wire`. A slice
  // begins at a multiple of 64 bytes.
  static std::size_t bytes_needed(std::span<const Slice> slices, DType wire);

  // `buffer` has that many bytes on `device`; batches may share it, if one stream runs them all.
  // The slices' memory must live until the stream has passed.
  PackedBatch(std::span<const Slice> slices, const NcclReduction& as, int device, Buffer buffer);

  void pack(cudaStream_t stream) const;
  void unpack(cudaStream_t stream) const;

  void* data() const { return buffer_.data; }
  // Elements of the wire dtype in the buffer, gaps included.
  std::size_t numel() const { return numel_; }

 private:
  int device_;
  Buffer buffer_;
  std::size_t numel_ = 0;
  CopyRule in_rule_;
  CopyRule out_rule_;
  std::vector<CopyPiece> in_;
  std::vector<CopyPiece> out_;
};

}  // namespace hvd::engine
