#include "ops/shm/shm_all_reduce.h"

#include "ops/host/host_buffer.h"
#include "ops/host/stopwatch.h"

namespace hvd {

ShmAllReduce::ShmAllReduce(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
                           std::span<const Slice> slices, const Reduction& reduction)
    : ShmOperation(std::move(set), std::move(ready)),
      batch_(host::ReduceBatch::make(slices, reduction)),
      inputs_(size()) {
  const std::size_t bytes = batch_->bytes();
  const bool lossy = reduction.wire != WireFormat::kNone;
  // Who encodes a sum again has to keep what that loses: one rank for each element.
  shared_ = lossy || (size() > 2 && bytes > limits().small_bytes);
  // Elements fill a chunk without a gap, encoded blocks need not.
  step_bytes_ = chunk_bytes() - (lossy ? host::ReduceBatch::kLongestUnit : 0);
  stats_.packed_bytes = bytes;
  const Step steps = steps_of(bytes, step_bytes_);
  set_plan({.writes = steps, .reads = steps, .reduces = shared_});
}

ShmAllReduce::Range ShmAllReduce::range_of(Step step) const {
  return {batch_->boundary(step * step_bytes_), batch_->boundary((step + 1) * step_bytes_)};
}

// What `rank` reduces of a range.
ShmAllReduce::Range ShmAllReduce::part_of(const Range& range, std::size_t rank) const {
  const auto begin = [&](std::size_t r) {
    return batch_->boundary(range.first + range.bytes() * r / size());
  };
  return {begin(rank), begin(rank + 1)};
}

void ShmAllReduce::pack(const Range& range, std::byte* to) {
  const host::Stopwatch packing(stats_.packing);
  batch_->pack(range.first, range.last, to);
}

void ShmAllReduce::unpack(const Range& range, const std::byte* from) {
  const host::Stopwatch unpacking(stats_.unpacking);
  batch_->unpack(range.first, range.last, from);
}

// What this rank reduces itself is read where it stands, if it stands there as it travels.
void ShmAllReduce::write(Step step) {
  const Range range = range_of(step);
  std::byte* const mine = chunk(rank(), step);
  const Range own = shared_ ? part_of(range, rank()) : range;
  if (!shared_ || batch_->input(own.first, own.last) == nullptr) return pack(range, mine);
  pack({range.first, own.first}, mine);
  pack({own.last, range.last}, mine + (own.last - range.first));
}

// Reduces a range of the step from what the ranks show and this one has.
void ShmAllReduce::reduce(const Range& range, Step step, std::byte* out) {
  const std::size_t offset = range.first - range_of(step).first;
  for (std::size_t r = 0; r < size(); ++r) inputs_[r] = chunk(r, step) + offset;
  if (const std::byte* const place = batch_->input(range.first, range.last)) {
    inputs_[rank()] = place;
  }
  batch_->reduce(range.first, range.last, inputs_, out);
}

void ShmAllReduce::reduce(Step step) {
  const Range range = range_of(step);
  const Range own = part_of(range, rank());
  reduce(own, step, chunk(rank(), step) + (own.first - range.first));
}

void ShmAllReduce::read(Step step) {
  const Range range = range_of(step);
  if (!shared_) return reduce_to_output(range, step);
  for (std::size_t r = 0; r < size(); ++r) {
    const Range part = part_of(range, r);
    unpack(part, chunk(r, step) + (part.first - range.first));
  }
}

void ShmAllReduce::reduce_to_output(const Range& range, Step step) {
  if (std::byte* const place = batch_->output(range.first, range.last)) {
    return reduce(range, step, place);
  }
  if (scratch_.data == nullptr) scratch_ = host::allocate_buffer(range.bytes());
  auto* const result = static_cast<std::byte*>(scratch_.data);
  reduce(range, step, result);
  unpack(range, result);
}

}  // namespace hvd
