#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/base/allocators.h"
#include "core/ports/collective.h"

namespace hvd::engine::host {

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
  using Regions = RecycledVector<Region>;
  Regions::const_iterator region_at(std::size_t offset) const noexcept;
  template <typename Visit>
  void for_each(std::size_t offset, std::size_t count, Visit visit) const;

  Regions regions_;
  std::size_t bytes_ = 0;
};

// To the sequence of each rank its part of `data`, counts[rank] * unit bytes, in rank order. What
// only reads them may append memory that must not be written.
void append_parts(std::vector<ByteSequence>& sequences, const void* data, const auto& counts,
                  std::size_t unit = 1) {
  auto* place = static_cast<std::byte*>(const_cast<void*>(data));
  for (std::size_t rank = 0; rank < sequences.size(); ++rank) {
    const std::size_t bytes = static_cast<std::size_t>(counts[rank]) * unit;
    sequences[rank].append(place, bytes);
    place += bytes;
  }
}

// Bytes of the longest.
std::size_t longest_of(const std::vector<ByteSequence>& sequences);

// What a rank of a set sends to each rank and gets from each, in all slices of one call.
class Parcels {
 public:
  // Each rank's part goes to all.
  Parcels(std::span<const GatherSlice> slices, std::size_t rank, std::size_t size);
  // The root's slices go to all.
  Parcels(std::span<const Slice> slices, Rank root, std::size_t rank, std::size_t size);
  Parcels(std::span<const ExchangeSlice> slices, std::size_t rank, std::size_t size);

  // The same goes to all.
  bool one_for_all() const { return inputs_.size() == 1; }
  // Read, never written to.
  const ByteSequence& to(std::size_t rank) const { return inputs_[one_for_all() ? 0 : rank]; }
  const ByteSequence& from(std::size_t rank) const { return outputs_[rank]; }
  std::size_t longest_to() const { return longest_of(inputs_); }
  // Of the inputs.
  std::size_t bytes() const;

 private:
  std::vector<ByteSequence> inputs_;   // by receiver, or one
  std::vector<ByteSequence> outputs_;  // by sender
};

}  // namespace hvd::engine::host
