#pragma once

#include <cstdint>

namespace hvd {

// An extent along the height and one along the width; one number stands for both.
struct IntPair {
  // Implicit: kernel_size = 3 means {3, 3}.
  IntPair(std::int64_t both) : height(both), width(both) {}
  IntPair(int both) : height(both), width(both) {}
  IntPair(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  friend bool operator==(const IntPair&, const IntPair&) = default;

  std::int64_t height;
  std::int64_t width;
};

}  // namespace hvd
