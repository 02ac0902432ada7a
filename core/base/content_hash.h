#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hvd {

// 64 bits that tell whether two ranks have the same bytes; as fast as memory is read. Buffers of
// one size that differ in one aligned word of 8 bytes always have different hashes. Not for keys,
// nor against someone who wants two buffers to look alike. Equal on machines of one byte order.
// Pure.
std::uint64_t content_hash(std::span<const std::byte> bytes);

}  // namespace hvd
