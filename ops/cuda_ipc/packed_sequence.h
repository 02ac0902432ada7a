#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/dtype.h"

namespace hvd::engine {

// Tensors of a device as one sequence of bytes in which each begins at a multiple of kAlignment, so
// that vectors are aligned where the tensors are.
class PackedSequence {
 public:
  static constexpr std::size_t kAlignment = 64;  // bytes

  void add(const void* data, std::size_t bytes);

  // Gaps included.
  std::size_t bytes() const noexcept { return bytes_; }
  // Integers of the size that all tensors added so far are made of: they are copied as such.
  DType unit() const;

  // What of one tensor lies in a range: its memory, where it stands in the range, how much.
  using Visit = std::function<void(std::byte* data, std::size_t offset, std::size_t bytes)>;
  // Of [begin, end), which may reach beyond the sequence; in order.
  void visit(std::size_t begin, std::size_t end, const Visit& each) const;

 private:
  struct Region {
    std::byte* data;
    std::size_t begin;  // in the sequence
    std::size_t bytes;
  };
  std::vector<Region> regions_;
  std::size_t bytes_ = 0;
  std::uintptr_t bits_ = 8;  // of all addresses and sizes
};

}  // namespace hvd::engine
