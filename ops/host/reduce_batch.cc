#include "ops/host/reduce_batch.h"

#include <algorithm>
#include <vector>

#include "core/base/allocators.h"
#include "ops/host/byte_sequence.h"
#include "ops/host/reduce.h"
#include "ops/host/wire.h"

namespace hvd::engine::host {
namespace {

class PlainBatch final : public ReduceBatch, public Recycled<PlainBatch> {
 public:
  PlainBatch(std::span<const Slice> slices, const Reduction& reduction) : reduction_(reduction) {
    if (!slices.empty()) dtype_ = slices.front().input.dtype;
    element_ = size_of(dtype_);
    for (const Slice& slice : slices) {
      input_.append(slice.input.data, slice.input.bytes());
      output_.append(slice.output.data, slice.output.bytes());
    }
  }

  std::size_t bytes() const noexcept override { return input_.bytes(); }
  std::size_t boundary(std::size_t byte) const override {
    return std::min(byte / element_ * element_, bytes());
  }
  const std::byte* input(std::size_t begin, std::size_t end) const override {
    return input_.whole(begin, end - begin);
  }
  std::byte* output(std::size_t begin, std::size_t end) const override {
    return output_.whole(begin, end - begin);
  }
  std::size_t whole_until(std::size_t begin, std::size_t end) const override {
    return std::min(end, begin + std::min(input_.whole_from(begin), output_.whole_from(begin)));
  }
  void pack(std::size_t begin, std::size_t end, std::byte* to) const override {
    input_.copy_to(to, begin, end - begin);
  }
  void publish(std::size_t begin, std::size_t end, std::byte* to) const override {
    input_.show_to(to, begin, end - begin);
  }
  void reduce(std::size_t begin, std::size_t end, std::span<const void* const> inputs,
              std::byte* out) const override {
    host::reduce(dtype_, reduction_.op, inputs, out,
                 static_cast<std::int64_t>((end - begin) / element_), reduction_.prescale,
                 reduction_.postscale);
  }
  void unpack(std::size_t begin, std::size_t end, const std::byte* from) const override {
    output_.copy_from(from, begin, end - begin);
  }

 private:
  Reduction reduction_;
  DType dtype_ = DType::kF32;
  std::size_t element_ = 1;  // bytes
  ByteSequence input_;
  ByteSequence output_;
};

const std::byte* element(const TensorView& view, std::int64_t index) {
  return static_cast<const std::byte*>(view.data) +
         static_cast<std::size_t>(index) * size_of(view.dtype);
}

// Like reduce_encoded(), bit for bit; adds what it loses to `residual`.
void reduce_with_feedback(const Reduction& reduction, std::span<const void* const> inputs,
                          std::int64_t numel, float* residual, std::byte* out) {
  float sum[kWireBlock];
  float each[kWireBlock];
  for (std::int64_t first = 0; first < numel; first += kWireBlock) {
    const std::int64_t count = std::min(kWireBlock, numel - first);
    const std::size_t at = wire_bytes(reduction.wire, first);
    std::fill_n(sum, count, -0.0f);  // neutral for zeros of both signs
    for (const void* const input : inputs) {
      const auto* const from = static_cast<const std::byte*>(input) + at;
      decode(reduction.wire, from, DType::kF32, each, count);
      for (std::int64_t i = 0; i < count; ++i) sum[i] += each[i];
    }
    float* const loss = each;
    std::fill_n(loss, count, 0.0f);
    encode(reduction.wire, DType::kF32, sum, reduction.postscale, loss, count, out + at);
    if (reduction.postscale == 0) continue;
    // A residual is added before the postscale.
    const auto inverse = static_cast<float>(1 / reduction.postscale);
    for (std::int64_t i = 0; i < count; ++i) residual[first + i] += loss[i] * inverse;
  }
}

// The slices in a lossy wire format (ops/host/wire.h): encoded while they are packed, decoded while
// they are unpacked. Of all ranks one reduces each byte, after its own pack(), and keeps what
// encoding the sum loses.
class WireBatch final : public ReduceBatch {
 public:
  WireBatch(std::span<const Slice> slices, const Reduction& reduction)
      : slices_(slices.begin(), slices.end()), reduction_(reduction) {
    begins_.reserve(slices_.size());
    for (const Slice& slice : slices_) {
      check_reduction(slice.input.dtype, reduction);
      begins_.push_back(bytes_);
      bytes_ += wire_bytes(reduction.wire, slice.input.numel);
    }
  }

  std::size_t bytes() const noexcept override { return bytes_; }
  std::size_t boundary(std::size_t byte) const override {
    if (byte >= bytes_) return bytes_;
    const std::size_t slice = slice_at(byte);
    return begins_[slice] + wire_bytes(reduction_.wire, element_at(slice, byte));
  }
  void pack(std::size_t begin, std::size_t end, std::byte* to) const override {
    for_each_run(begin, end, [&](const Run& run) {
      const Slice& slice = run.slice;
      float* const residual = slice.residual == nullptr ? nullptr : slice.residual + run.first;
      host::encode(reduction_.wire, slice.input.dtype, element(slice.input, run.first),
                   reduction_.prescale, residual, run.count, to + run.at);
    });
  }
  void reduce(std::size_t begin, std::size_t end, std::span<const void* const> inputs,
              std::byte* out) const override {
    std::vector<const void*> parts(inputs.size());
    for_each_run(begin, end, [&](const Run& run) {
      for (std::size_t r = 0; r < inputs.size(); ++r) {
        parts[r] = static_cast<const std::byte*>(inputs[r]) + run.at;
      }
      std::byte* const to = out + run.at;
      if (run.slice.residual == nullptr) {
        reduce_encoded(reduction_.wire, parts, run.count, reduction_.postscale, to);
      } else {
        reduce_with_feedback(reduction_, parts, run.count, run.slice.residual + run.first, to);
      }
    });
  }
  void unpack(std::size_t begin, std::size_t end, const std::byte* from) const override {
    for_each_run(begin, end, [&](const Run& run) {
      const TensorView& output = run.slice.output;
      host::decode(reduction_.wire, from + run.at, output.dtype,
                   const_cast<std::byte*>(element(output, run.first)), run.count);
    });
  }

 private:
  // A range's part of one slice.
  struct Run {
    const Slice& slice;
    std::int64_t first;  // element of the slice
    std::int64_t count;
    std::size_t at;  // byte of the range
  };

  std::size_t slice_at(std::size_t byte) const {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), byte);
    return static_cast<std::size_t>(after - begins_.begin()) - 1;
  }
  // Whole blocks of any format.
  std::int64_t element_at(std::size_t slice, std::size_t byte) const {
    const std::size_t block_bytes = wire_bytes(reduction_.wire, kWireBlock);
    return static_cast<std::int64_t>((byte - begins_[slice]) / block_bytes) * kWireBlock;
  }
  template <typename Body>
  void for_each_run(std::size_t begin, std::size_t end, const Body& body) const {
    std::size_t i = slice_at(begin);
    for (std::size_t at = begin; at < end; ++i) {
      const std::int64_t first = element_at(i, at);
      const std::size_t slice_end = i + 1 < begins_.size() ? begins_[i + 1] : bytes_;
      const std::int64_t last = end >= slice_end ? slices_[i].input.numel : element_at(i, end);
      body(Run{slices_[i], first, last - first, at - begin});
      at = std::min(end, slice_end);
    }
  }

  std::vector<Slice> slices_;
  std::vector<std::size_t> begins_;  // first byte of each slice
  std::size_t bytes_ = 0;
  Reduction reduction_;
};

}  // namespace

std::unique_ptr<ReduceBatch> ReduceBatch::make(std::span<const Slice> slices,
                                               const Reduction& reduction) {
  if (reduction.wire != WireFormat::kNone) return std::make_unique<WireBatch>(slices, reduction);
  return std::make_unique<PlainBatch>(slices, reduction);
}

}  // namespace hvd::engine::host
