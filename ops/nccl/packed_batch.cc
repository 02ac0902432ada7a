#include "ops/nccl/packed_batch.h"

#include <utility>

namespace hvd::engine {
namespace {

constexpr std::size_t kAlignment = 64;  // bytes; more than the vectors of the kernels need

std::size_t packed_bytes(const Slice& slice, DType wire) {
  const std::size_t bytes = static_cast<std::size_t>(slice.input.numel) * size_of(wire);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::size_t PackedBatch::bytes_needed(std::span<const Slice> slices, DType wire) {
  std::size_t bytes = 0;
  for (const Slice& slice : slices) bytes += packed_bytes(slice, wire);
  return bytes;
}

PackedBatch::PackedBatch(std::span<const Slice> slices, const NcclReduction& as, int device,
                         Buffer buffer)
    : device_(device), buffer_(std::move(buffer)) {
  const DType dtype = slices.front().input.dtype;
  in_rule_ = {dtype, as.wire, as.before};
  out_rule_ = {as.wire, dtype, as.after};
  auto* place = static_cast<std::byte*>(buffer_.data);
  for (const Slice& slice : slices) {
    in_.push_back({slice.input.data, place, slice.input.numel});
    out_.push_back({place, slice.output.data, slice.output.numel});
    place += packed_bytes(slice, as.wire);
  }
  numel_ = bytes_needed(slices, as.wire) / size_of(as.wire);
}

void PackedBatch::pack(cudaStream_t stream) const {
  copy_pieces(device_, stream, in_rule_, in_);
}

void PackedBatch::unpack(cudaStream_t stream) const {
  copy_pieces(device_, stream, out_rule_, out_);
}

}  // namespace hvd::engine
