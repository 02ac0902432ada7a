#pragma once

#include <cstdint>
#include <limits>

namespace hvd {

// In the place of an extent of adaptive_avg_pool2d's output_size: the input's.
inline constexpr std::int64_t kInputExtent = std::numeric_limits<std::int64_t>::min();

}  // namespace hvd
