#include "ops/mpi/scratch.h"

#include <algorithm>
#include <bit>

#include "ops/host/host_memory.h"

namespace hvd {
namespace {

constexpr std::size_t kLeast = 4096;                   // bytes of a buffer
constexpr std::size_t kKept = std::size_t{256} << 20;  // bytes that wait for the next operation

}  // namespace

Buffer ScratchPool::take(std::size_t bytes) {
  const std::size_t rounded = std::bit_ceil(std::max(bytes, kLeast));
  const auto fits = [&](const Buffer& each) { return each.bytes == rounded; };
  const auto found = std::find_if(free_.rbegin(), free_.rend(), fits);  // the warmest first
  if (found == free_.rend()) return host::allocate_buffer(rounded);
  Buffer buffer = std::move(*found);
  free_.erase(std::prev(found.base()));
  free_bytes_ -= rounded;
  return buffer;
}

void ScratchPool::give_back(Buffer buffer) {
  if (free_bytes_ + buffer.bytes > kKept) return;
  free_bytes_ += buffer.bytes;
  free_.push_back(std::move(buffer));
}

Scratch::~Scratch() {
  for (Buffer& buffer : taken_) pool_.give_back(std::move(buffer));
}

std::byte* Scratch::take(std::size_t bytes) {
  taken_.push_back(pool_.take(bytes));
  return static_cast<std::byte*>(taken_.back().data);
}

}  // namespace hvd
