#include "ops/host/pack.h"

#include <cstring>

namespace hvd::host {
namespace {

std::size_t padded(std::size_t bytes) {
  return (bytes + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
}

}  // namespace

std::size_t packed_bytes(std::span<const Slice> slices) {
  std::size_t total = 0;
  for (const Slice& slice : slices) total += padded(slice.input.bytes());
  return total;
}

void pack(std::span<const Slice> slices, void* buffer) {
  auto* to = static_cast<std::byte*>(buffer);
  for (const Slice& slice : slices) {
    const std::size_t bytes = slice.input.bytes();
    if (bytes == 0) continue;  // its pointer may be null, which memcpy does not take
    std::memcpy(to, slice.input.data, bytes);
    std::memset(to + bytes, 0, padded(bytes) - bytes);
    to += padded(bytes);
  }
}

void unpack(const void* buffer, std::span<const Slice> slices) {
  const auto* from = static_cast<const std::byte*>(buffer);
  for (const Slice& slice : slices) {
    const std::size_t bytes = slice.output.bytes();
    if (bytes == 0) continue;
    std::memcpy(slice.output.data, from, bytes);
    from += padded(bytes);
  }
}

}  // namespace hvd::host
