#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/ports/collective.h"

namespace hvd::host {

// The slices of one all-reduce in a lossy wire format: encoded while they are packed, one behind
// the other, decoded while they are unpacked (ops/host/wire.h has the formats). Ranges of the
// encoded batch may be worked on alone, so that ranks share the reduction. Whatever the ranges, all
// ranks that decode the same bytes get the same bits:
//   encode the inputs -> reduce the ranks' ranges -> decode what they were reduced to.
class WireBatch {
 public:
  // `reduction` must pass check_reduction() and have a wire format other than kNone. The slices'
  // memory must outlive the batch.
  WireBatch(std::span<const Slice> slices, const Reduction& reduction);

  // Of the encoded batch, equal on all ranks.
  std::size_t bytes() const { return bytes_; }

  // The last byte at or before `byte` where a range may begin or end; 0 and bytes() are such.
  std::size_t boundary(std::size_t byte) const;

  // Bytes [begin, end) of the encoded batch; both are boundaries. encode() reads the inputs and
  // reads and writes the residuals: each byte once a batch. Buffers begin at byte `begin` and are
  // aligned to 4 bytes.
  void encode(std::size_t begin, std::size_t end, void* out) const;
  // inputs[r] is rank r's range; `out` may be exactly one of them. Adds what encoding the sum loses
  // to this rank's residuals: of all ranks one reduces each byte, after its own encode().
  void reduce(std::size_t begin, std::size_t end, std::span<const void* const> inputs,
              void* out) const;
  // Writes the outputs.
  void decode(std::size_t begin, std::size_t end, const void* in) const;

 private:
  // A range's part of one slice.
  struct Run {
    const Slice& slice;
    std::int64_t first;  // element of the slice
    std::int64_t count;
    std::size_t at;  // byte of the range
  };
  template <typename Body>
  void for_each_run(std::size_t begin, std::size_t end, const Body& body) const;
  std::int64_t element_at(std::size_t slice, std::size_t byte) const;

  std::vector<Slice> slices_;
  std::vector<std::size_t> begins_;  // first byte of each slice
  std::size_t bytes_ = 0;
  Reduction reduction_;
};

}  // namespace hvd::host
