#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace hvd::engine::test {

// Repeats the first `period` bytes (at least 1) over all of `bytes`; fast in debug builds too.
inline void repeat_prefix(std::span<std::byte> bytes, std::size_t period) {
  for (std::size_t done = period; done < bytes.size();) {
    const std::size_t count = std::min(done, bytes.size() - done);
    std::memcpy(bytes.data() + done, bytes.data(), count);
    done += count;
  }
}

}  // namespace hvd::engine::test
