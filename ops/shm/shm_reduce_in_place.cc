#include "ops/shm/shm_reduce_in_place.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/host/reduce.h"

namespace hvd {
namespace {

constexpr std::size_t kLine = 64;  // bytes; whole elements of every dtype
// Of every rank; what is reduced is still in the cache when it is copied to the others.
constexpr std::size_t kBlock = std::size_t{16} << 10;

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
  for (std::size_t at = first; at < last; at += kBlock) {
    const std::size_t bytes = std::min(kBlock, last - at);
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

}  // namespace hvd
