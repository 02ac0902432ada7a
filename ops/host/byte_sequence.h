#pragma once

#include <cstddef>
#include <vector>

namespace hvd::host {

// Regions of memory seen as one sequence of bytes, end to end. Offsets count bytes from its start.
class ByteSequence {
 public:
  void append(void* data, std::size_t bytes);

  std::size_t bytes() const noexcept { return bytes_; }
  // Where [offset, offset + count) stands if it lies in one region; nullptr if it does not.
  std::byte* whole(std::size_t offset, std::size_t count) const noexcept;
  // From `offset`: how much stands in one region.
  std::size_t whole_from(std::size_t offset) const noexcept;
  void copy_to(std::byte* out, std::size_t offset, std::size_t count) const noexcept;
  // The same to memory that other ranks read next: see StreamingCopy.
  void show_to(std::byte* out, std::size_t offset, std::size_t count) const noexcept;
  void copy_from(const std::byte* in, std::size_t offset, std::size_t count) const noexcept;
  // The same range of both.
  void copy_from(const ByteSequence& in, std::size_t offset, std::size_t count) const noexcept;

 private:
  struct Region {
    std::byte* data;
    std::size_t begin;  // of the region in the sequence
    std::size_t bytes;
  };
  std::vector<Region>::const_iterator region_at(std::size_t offset) const noexcept;
  template <typename Visit>
  void for_each(std::size_t offset, std::size_t count, Visit visit) const;

  std::vector<Region> regions_;
  std::size_t bytes_ = 0;
};

}  // namespace hvd::host
