#include "ops/shm/shm_all_reduce.h"

#include <algorithm>

#include "ops/host/stopwatch.h"
#include "ops/host/streaming_copy.h"

namespace hvd {
namespace {

constexpr std::size_t kBlock = std::size_t{8} << 10;  // bytes of a sum before it is shown

}  // namespace

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

void ShmAllReduce::show(const Range& range, std::byte* to) {
  const host::Stopwatch packing(stats_.packing);
  batch_->show(range.first, range.last, to);
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
  if (!shared_ || batch_->input(own.first, own.last) == nullptr) return show(range, mine);
  show({range.first, own.first}, mine);
  show({own.last, range.last}, mine + (own.last - range.first));
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
  std::byte* const mine = chunk(rank(), step);
  if (!host::StreamingCopy::past_the_caches())
    return reduce(own, step, mine + (own.first - range.first));
  const host::StreamingCopy streaming_copy(own.bytes());
  alignas(64) std::byte sum[kBlock];
  for (Range block = {own.first, own.first}; block.first < own.last; block.first = block.last) {
    block.last = std::min(own.last, batch_->boundary(block.first + kBlock));
    reduce(block, step, sum);
    streaming_copy.copy(mine + (block.first - range.first), sum, block.bytes());
  }
}

void ShmAllReduce::read(Step step) {
  const Range range = range_of(step);
  for (Range piece = range; !shared_ && piece.first < range.last; piece.first = piece.last) {
    piece.last = batch_->whole_until(piece.first, range.last);
    reduce(piece, step, batch_->output(piece.first, piece.last));
  }
  for (std::size_t r = 0; shared_ && r < size(); ++r) {
    const Range part = part_of(range, r);
    unpack(part, chunk(r, step) + (part.first - range.first));
  }
}

}  // namespace hvd
