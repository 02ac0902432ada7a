#include "ops/cuda_ipc/packed_sequence.h"

#include <algorithm>

namespace hvd::engine {

void PackedSequence::add(const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  regions_.push_back({static_cast<std::byte*>(const_cast<void*>(data)), bytes_, bytes});
  bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  bits_ |= reinterpret_cast<std::uintptr_t>(data) | bytes;
}

DType PackedSequence::unit() const {
  if (bits_ % 2 != 0) return DType::kU8;
  if (bits_ % 4 != 0) return DType::kU16;
  return bits_ % 8 != 0 ? DType::kI32 : DType::kI64;
}

void PackedSequence::visit(std::size_t begin, std::size_t end, const Visit& each) const {
  if (begin >= end) return;
  auto region = std::partition_point(
      regions_.begin(), regions_.end(),
      [&](const Region& candidate) { return candidate.begin + candidate.bytes <= begin; });
  for (; region != regions_.end() && region->begin < end; ++region) {
    const std::size_t first = std::max(begin, region->begin);
    const std::size_t last = std::min(end, region->begin + region->bytes);
    each(region->data + (first - region->begin), first - begin, last - first);
  }
}

}  // namespace hvd::engine
