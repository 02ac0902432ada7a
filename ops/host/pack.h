#pragma once

#include <cstddef>
#include <span>

#include "core/runtime/collective.h"

namespace hvd::host {

// Slices in one buffer stand one behind the other, each at a multiple of this many bytes: a cache
// line, and a whole number of elements of every dtype.
inline constexpr std::size_t kPackAlignment = 64;

// Bytes of a buffer that holds all slices; a multiple of kPackAlignment.
std::size_t packed_bytes(std::span<const Slice> slices);

// Copies the inputs into `buffer` of packed_bytes(slices). Gaps become zero, so that the buffer may
// be reduced as one array.
void pack(std::span<const Slice> slices, void* buffer);

// Copies `buffer`, laid out as pack() does, to the outputs.
void unpack(const void* buffer, std::span<const Slice> slices);

}  // namespace hvd::host
