#include "core/base/extents.h"

#include <algorithm>

namespace hvd {

std::optional<std::int64_t> checked_bytes(const Shape& shape, DType dtype) {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  bool empty = false;
  for (const std::int64_t extent : shape) {
    empty = empty || extent == 0;
    if (extent < 0 || __builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes;
}

}  // namespace hvd
