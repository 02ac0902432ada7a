#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>

namespace hvd {

// Memory for containers that are small nearly always and gone when the function returns: what fits
// into `kBytes` costs no allocation, the rest comes from the heap.
template <std::size_t kBytes>
struct StackMemory {
  StackMemory() = default;
  StackMemory(const StackMemory&) = delete;
  StackMemory& operator=(const StackMemory&) = delete;

  alignas(std::max_align_t) std::array<std::byte, kBytes> bytes;
  std::pmr::monotonic_buffer_resource resource{bytes.data(), kBytes};
};

}  // namespace hvd
