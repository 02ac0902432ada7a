#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/ports/collective.h"

namespace hvd::engine::host {

// The elements of a fused all-reduce as they travel, one behind the other: as they are, or encoded.
// Ranges of bytes [begin, end) begin and end at boundaries: of elements, or of an encoding's
// blocks.
class ReduceBatch {
 public:
  static constexpr std::size_t kLongestUnit = 512;  // bytes between boundaries, at most

  // Borrows the slices' memory. Slices of one dtype. Throws InvalidArgumentError for a wire format
  // that check_reduction() refuses. All ranks that unpack the same bytes get the same bits,
  // whatever the ranges.
  static std::unique_ptr<ReduceBatch> make(std::span<const Slice> slices,
                                           const Reduction& reduction);
  virtual ~ReduceBatch() = default;

  virtual std::size_t bytes() const noexcept = 0;
  // The last one at or before `byte`.
  virtual std::size_t boundary(std::size_t byte) const = 0;

  // Where the range stands as it travels, among the inputs or the outputs; nullptr if it does not.
  virtual const std::byte* input(std::size_t /*begin*/, std::size_t /*end*/) const {
    return nullptr;
  }
  virtual std::byte* output(std::size_t /*begin*/, std::size_t /*end*/) const { return nullptr; }

  // How far, up to `end`, what begins at `begin` stands so among the inputs and among the outputs.
  virtual std::size_t whole_until(std::size_t begin, std::size_t /*end*/) const { return begin; }

  // Each byte once, to memory aligned to 4 bytes: in a wire format it also updates the residuals.
  virtual void pack(std::size_t begin, std::size_t end, std::byte* to) const = 0;
  // The same to memory that other ranks read next: see StreamingCopy.
  virtual void publish(std::size_t begin, std::size_t end, std::byte* to) const {
    pack(begin, end, to);
  }
  // Reduces what all ranks packed, in the order of `inputs`. `out`, as it travels, may be exactly
  // one of them.
  virtual void reduce(std::size_t begin, std::size_t end, std::span<const void* const> inputs,
                      std::byte* out) const = 0;
  // Writes a result to the outputs.
  virtual void unpack(std::size_t begin, std::size_t end, const std::byte* from) const = 0;
};

}  // namespace hvd::engine::host
