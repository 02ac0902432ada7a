#include "ops/shm/shm_reduce_scatter.h"

#include <algorithm>

#include "ops/host/host_buffer.h"
#include "ops/host/reduce.h"
#include "ops/host/stopwatch.h"

namespace hvd {

ShmReduceScatter::ShmReduceScatter(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
                                   std::span<const ScatterSlice> slices, const Reduction& reduction)
    : ShmOperation(std::move(set), std::move(ready)),
      reduction_(reduction),
      inputs_(size()),
      contributions_(size()) {
  if (!slices.empty()) dtype_ = slices.front().input.dtype;
  for (const ScatterSlice& slice : slices) {
    auto* place = static_cast<std::byte*>(slice.input.data);
    for (std::size_t r = 0; r < size(); ++r) {
      const std::size_t bytes = static_cast<std::size_t>(slice.numel_of[r]) * size_of(dtype_);
      inputs_[r].append(place, bytes);
      place += bytes;
    }
    output_.append(slice.output.data, slice.output.bytes());
    stats_.packed_bytes += slice.input.bytes();
  }
  std::size_t longest = 0;
  for (const host::ByteSequence& input : inputs_) longest = std::max(longest, input.bytes());
  set_plan({.writes = steps_of(longest, share()), .reads = steps_of(output_.bytes(), share())});
}

std::size_t ShmReduceScatter::length(std::size_t rank, Step step) const {
  return length_of(inputs_[rank].bytes(), share(), step);
}

void ShmReduceScatter::write(Step step) {
  const host::Stopwatch packing(stats_.packing);
  std::byte* const mine = chunk(rank(), step);
  for (std::size_t r = 0; r < size(); ++r) {
    const std::size_t bytes = length(r, step);
    if (r != rank()) {
      inputs_[r].show_to(mine + r * share(), step * share(), bytes);
    } else if (inputs_[r].whole(step * share(), bytes) == nullptr) {
      inputs_[r].copy_to(mine + r * share(), step * share(), bytes);
    }
  }
}

void ShmReduceScatter::read(Step step) {
  const std::size_t bytes = length(rank(), step);
  for (std::size_t r = 0; r < size(); ++r) contributions_[r] = chunk(r, step) + rank() * share();
  if (const std::byte* const place = inputs_[rank()].whole(step * share(), bytes)) {
    contributions_[rank()] = place;
  }
  std::byte* const place = output_.whole(step * share(), bytes);
  if (place == nullptr && scratch_.data == nullptr) scratch_ = host::allocate_buffer(share());
  std::byte* const result = place != nullptr ? place : static_cast<std::byte*>(scratch_.data);
  host::reduce(dtype_, reduction_.op, contributions_, result,
               static_cast<std::int64_t>(bytes / size_of(dtype_)), reduction_.prescale,
               reduction_.postscale);
  if (place != nullptr) return;
  const host::Stopwatch unpacking(stats_.unpacking);
  output_.copy_from(result, step * share(), bytes);
}

}  // namespace hvd
