#include "ops/host/wire_batch.h"

#include <algorithm>

#include "ops/host/wire.h"

namespace hvd::host {
namespace {

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

}  // namespace

WireBatch::WireBatch(std::span<const Slice> slices, const Reduction& reduction)
    : slices_(slices.begin(), slices.end()), reduction_(reduction) {
  begins_.reserve(slices_.size());
  for (const Slice& slice : slices_) {
    check_reduction(slice.input.dtype, reduction);
    begins_.push_back(bytes_);
    bytes_ += wire_bytes(reduction.wire, slice.input.numel);
  }
}

// Whole blocks of any format.
std::int64_t WireBatch::element_at(std::size_t slice, std::size_t byte) const {
  const std::size_t block_bytes = wire_bytes(reduction_.wire, kWireBlock);
  const auto blocks = static_cast<std::int64_t>((byte - begins_[slice]) / block_bytes);
  return blocks * kWireBlock;
}

std::size_t WireBatch::boundary(std::size_t byte) const {
  if (byte >= bytes_) return bytes_;
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), byte);
  const auto slice = static_cast<std::size_t>(after - begins_.begin()) - 1;
  return begins_[slice] + wire_bytes(reduction_.wire, element_at(slice, byte));
}

template <typename Body>
void WireBatch::for_each_run(std::size_t begin, std::size_t end, const Body& body) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), begin);
  auto i = static_cast<std::size_t>(after - begins_.begin()) - 1;
  for (std::size_t at = begin; at < end; ++i) {
    const std::int64_t first = element_at(i, at);
    const std::size_t slice_end = i + 1 < begins_.size() ? begins_[i + 1] : bytes_;
    const std::int64_t last = end >= slice_end ? slices_[i].input.numel : element_at(i, end);
    body(Run{slices_[i], first, last - first, at - begin});
    at = std::min(end, slice_end);
  }
}

void WireBatch::encode(std::size_t begin, std::size_t end, void* out) const {
  for_each_run(begin, end, [&](const Run& run) {
    const Slice& slice = run.slice;
    float* const residual = slice.residual == nullptr ? nullptr : slice.residual + run.first;
    host::encode(reduction_.wire, slice.input.dtype, element(slice.input, run.first),
                 reduction_.prescale, residual, run.count, static_cast<std::byte*>(out) + run.at);
  });
}

void WireBatch::reduce(std::size_t begin, std::size_t end, std::span<const void* const> inputs,
                       void* out) const {
  std::vector<const void*> parts(inputs.size());
  for_each_run(begin, end, [&](const Run& run) {
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      parts[r] = static_cast<const std::byte*>(inputs[r]) + run.at;
    }
    std::byte* const to = static_cast<std::byte*>(out) + run.at;
    if (run.slice.residual == nullptr) {
      reduce_encoded(reduction_.wire, parts, run.count, reduction_.postscale, to);
    } else {
      reduce_with_feedback(reduction_, parts, run.count, run.slice.residual + run.first, to);
    }
  });
}

void WireBatch::decode(std::size_t begin, std::size_t end, const void* in) const {
  for_each_run(begin, end, [&](const Run& run) {
    const TensorView& output = run.slice.output;
    host::decode(reduction_.wire, static_cast<const std::byte*>(in) + run.at, output.dtype,
                 const_cast<std::byte*>(element(output, run.first)), run.count);
  });
}

}  // namespace hvd::host
