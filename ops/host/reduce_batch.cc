#include "ops/host/reduce_batch.h"

#include <algorithm>

#include "ops/host/byte_sequence.h"
#include "ops/host/reduce.h"
#include "ops/host/wire_batch.h"

namespace hvd::host {
namespace {

class PlainBatch final : public ReduceBatch {
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
  void show(std::size_t begin, std::size_t end, std::byte* to) const override {
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

class EncodedBatch final : public ReduceBatch {
 public:
  EncodedBatch(std::span<const Slice> slices, const Reduction& reduction)
      : batch_(slices, reduction) {}

  std::size_t bytes() const noexcept override { return batch_.bytes(); }
  std::size_t boundary(std::size_t byte) const override { return batch_.boundary(byte); }
  const std::byte* input(std::size_t, std::size_t) const override { return nullptr; }
  std::byte* output(std::size_t, std::size_t) const override { return nullptr; }
  std::size_t whole_until(std::size_t begin, std::size_t) const override { return begin; }
  void pack(std::size_t begin, std::size_t end, std::byte* to) const override {
    batch_.encode(begin, end, to);
  }
  void show(std::size_t begin, std::size_t end, std::byte* to) const override {
    batch_.encode(begin, end, to);
  }
  void reduce(std::size_t begin, std::size_t end, std::span<const void* const> inputs,
              std::byte* out) const override {
    batch_.reduce(begin, end, inputs, out);
  }
  void unpack(std::size_t begin, std::size_t end, const std::byte* from) const override {
    batch_.decode(begin, end, from);
  }

 private:
  WireBatch batch_;
};

}  // namespace

std::unique_ptr<ReduceBatch> ReduceBatch::make(std::span<const Slice> slices,
                                               const Reduction& reduction) {
  if (reduction.wire != WireFormat::kNone) {
    return std::make_unique<EncodedBatch>(slices, reduction);
  }
  return std::make_unique<PlainBatch>(slices, reduction);
}

}  // namespace hvd::host
