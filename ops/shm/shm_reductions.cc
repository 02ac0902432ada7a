#include "ops/shm/shm_operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/host/host_memory.h"
#include "ops/host/reduce.h"
#include "ops/host/streaming_copy.h"

namespace hvd::engine {
namespace {

constexpr std::size_t kBlock = std::size_t{8} << 10;  // bytes of a sum before it is shown

// What takes one step, in which every rank reduces for itself what the others bring as it is.
bool shows_early(std::span<const Slice> slices, std::size_t bytes, const ShmLimits& limits) {
  return !slices.empty() && slices.front().submission != 0 && bytes > 0 &&
         bytes <= std::min(limits.small_bytes, limits.chunk_bytes);
}

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
  if (shows_early(slices, bytes, limits()) && !lossy) expect_early(slices.front().submission);
}

void ShmAllReduce::show_early(ShmSet& set, std::span<const Slice> slices) {
  host::ByteSequence inputs;
  for (const Slice& slice : slices) inputs.append(slice.input.data, slice.input.bytes());
  if (!shows_early(slices, inputs.bytes(), set.segment().limits())) return;
  set.show_early(slices.front().submission, inputs);
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

void ShmAllReduce::publish(const Range& range, std::byte* to) {
  const host::Stopwatch packing(stats_.packing);
  batch_->publish(range.first, range.last, to);
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
  if (!shared_ || batch_->input(own.first, own.last) == nullptr) return publish(range, mine);
  publish({range.first, own.first}, mine);
  publish({own.last, range.last}, mine + (own.last - range.first));
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

ShmReduceScatter::ShmReduceScatter(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
                                   std::span<const ScatterSlice> slices, const Reduction& reduction)
    : ShmOperation(std::move(set), std::move(ready)),
      reduction_(reduction),
      inputs_(size()),
      contributions_(size()) {
  if (!slices.empty()) dtype_ = slices.front().input.dtype;
  for (const ScatterSlice& slice : slices) {
    host::append_parts(inputs_, slice.input.data, slice.numel_of, size_of(dtype_));
    output_.append(slice.output.data, slice.output.bytes());
    stats_.packed_bytes += slice.input.bytes();
  }
  set_plan({.writes = steps_of(host::longest_of(inputs_), share()),
            .reads = steps_of(output_.bytes(), share())});
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

namespace {

constexpr std::size_t kLine = 64;  // bytes; whole elements of every dtype
// Of every rank; what is reduced is still in the cache when it is copied to the others.
constexpr std::size_t kInPlaceBlock = std::size_t{16} << 10;

std::size_t lines_of(const Slice& slice) {
  return (slice.input.bytes() + kLine - 1) / kLine;
}

}  // namespace

ShmReduceInPlace::ShmReduceInPlace(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
                                   host::MappedArenaPtr arena, std::span<const Slice> slices,
                                   const Reduction& reduction)
    : ShmOperation(std::move(set), std::move(ready)),
      arena_(std::move(arena)),
      slices_(slices.begin(), slices.end()),
      reduction_(reduction),
      inputs_(size()) {
  // Neighbours one after the other: a share is then a range of memory.
  std::sort(slices_.begin(), slices_.end(),
            [](const Slice& a, const Slice& b) { return a.place->offset < b.place->offset; });
  for (const Slice& slice : slices_) lines_ += lines_of(slice);
  set_plan({.writes = 1, .reads = 1, .reduces = true});
}

void ShmReduceInPlace::reduce(Step) {
  const std::size_t begin = lines_ * rank() / size();
  const std::size_t end = lines_ * (rank() + 1) / size();
  std::size_t line = 0;  // the slice's first, among all
  for (const Slice& slice : slices_) {
    const std::size_t first = std::max(begin, line);
    const std::size_t last = std::min(end, line + lines_of(slice));
    if (first < last) reduce(slice, (first - line) * kLine, (last - line) * kLine);
    line += lines_of(slice);
  }
}

// Bytes [first, last) of the slice, or as many as it has.
void ShmReduceInPlace::reduce(const Slice& slice, std::size_t first, std::size_t last) {
  last = std::min(last, slice.input.bytes());
  for (std::size_t at = first; at < last; at += kInPlaceBlock) {
    const std::size_t bytes = std::min(kInPlaceBlock, last - at);
    for (std::size_t r = 0; r < size(); ++r) inputs_[r] = arena_->at(r, slice) + at;
    std::byte* const mine = arena_->at(rank(), slice) + at;
    const auto numel = static_cast<std::int64_t>(bytes / size_of(slice.input.dtype));
    host::reduce(slice.input.dtype, reduction_.op, inputs_, mine, numel, reduction_.prescale,
                 reduction_.postscale);
    for (std::size_t r = 0; r < size(); ++r) {
      if (r != rank()) std::memcpy(arena_->at(r, slice) + at, mine, bytes);
    }
  }
}

}  // namespace hvd::engine
