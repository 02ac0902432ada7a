#include "ops/host/byte_sequence.h"

#include <algorithm>
#include <cstring>

#include "ops/host/streaming_copy.h"

namespace hvd::engine::host {

void ByteSequence::append(void* data, std::size_t bytes) {
  if (bytes == 0) return;
  regions_.push_back({static_cast<std::byte*>(data), bytes_, bytes});
  bytes_ += bytes;
}

// That of the byte; the last one for what is past the end.
ByteSequence::Regions::const_iterator ByteSequence::region_at(std::size_t offset) const noexcept {
  const auto after =
      std::upper_bound(regions_.begin(), regions_.end(), offset,
                       [](std::size_t at, const Region& each) { return at < each.begin; });
  return after == regions_.begin() ? after : std::prev(after);
}

// Calls visit(place in memory, bytes before it in the range, bytes) for each part of the range.
template <typename Visit>
void ByteSequence::for_each(std::size_t offset, std::size_t count, Visit visit) const {
  auto region = region_at(offset);
  for (std::size_t done = 0; done < count; ++region) {
    const std::size_t skip = offset + done - region->begin;
    const std::size_t part = std::min(region->bytes - skip, count - done);
    visit(region->data + skip, done, part);
    done += part;
  }
}

std::byte* ByteSequence::whole(std::size_t offset, std::size_t count) const noexcept {
  std::byte* place = nullptr;
  for_each(offset, count, [&](std::byte* data, std::size_t, std::size_t part) {
    if (part == count) place = data;
  });
  return place;
}

std::size_t ByteSequence::whole_from(std::size_t offset) const noexcept {
  const auto region = region_at(offset);
  return region == regions_.end() ? 0 : region->begin + region->bytes - offset;
}

void ByteSequence::copy_to(std::byte* out, std::size_t offset, std::size_t count) const noexcept {
  for_each(offset, count, [out](const std::byte* data, std::size_t before, std::size_t part) {
    if (out + before != data) std::memcpy(out + before, data, part);
  });
}

void ByteSequence::show_to(std::byte* out, std::size_t offset, std::size_t count) const noexcept {
  const StreamingCopy streaming_copy(count);
  for_each(offset, count, [&](const std::byte* data, std::size_t before, std::size_t part) {
    streaming_copy.copy(out + before, data, part);
  });
}

void ByteSequence::copy_from(const std::byte* in, std::size_t offset,
                             std::size_t count) const noexcept {
  for_each(offset, count, [in](std::byte* data, std::size_t before, std::size_t part) {
    if (in + before != data) std::memcpy(data, in + before, part);
  });
}

void ByteSequence::copy_from(const ByteSequence& in, std::size_t offset,
                             std::size_t count) const noexcept {
  for_each(offset, count, [&](std::byte* data, std::size_t before, std::size_t part) {
    in.copy_to(data, offset + before, part);
  });
}

std::size_t longest_of(const std::vector<ByteSequence>& sequences) {
  std::size_t longest = 0;
  for (const ByteSequence& each : sequences) longest = std::max(longest, each.bytes());
  return longest;
}

Parcels::Parcels(std::span<const GatherSlice> slices, std::size_t rank, std::size_t size)
    : inputs_(1), outputs_(size) {
  for (const GatherSlice& slice : slices) {
    inputs_[0].append(const_cast<void*>(slice.input), slice.bytes_of[rank]);
    append_parts(outputs_, slice.output, slice.bytes_of);
  }
}

Parcels::Parcels(std::span<const Slice> slices, Rank root, std::size_t rank, std::size_t size)
    : inputs_(1), outputs_(size) {
  const auto from = static_cast<std::size_t>(root);
  for (const Slice& slice : slices) {
    if (rank == from) inputs_[0].append(slice.input.data, slice.input.bytes());
    outputs_[from].append(slice.output.data, slice.output.bytes());
  }
}

Parcels::Parcels(std::span<const ExchangeSlice> slices, std::size_t /*rank*/, std::size_t size)
    : inputs_(size), outputs_(size) {
  for (const ExchangeSlice& slice : slices) {
    append_parts(inputs_, slice.input, slice.bytes_to);
    append_parts(outputs_, slice.output, slice.bytes_from);
  }
}

std::size_t Parcels::bytes() const {
  std::size_t bytes = 0;
  for (const ByteSequence& input : inputs_) bytes += input.bytes();
  return bytes;
}

}  // namespace hvd::engine::host
