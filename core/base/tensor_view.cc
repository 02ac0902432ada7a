#include "core/base/tensor_view.h"

#include "core/base/status.h"

namespace hvd {

std::int64_t numel_of(const Shape& shape) {
  std::int64_t numel = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      throw InvalidArgumentError("shape " + to_string(shape) + " has a negative extent");
    }
    if (__builtin_mul_overflow(numel, extent, &numel)) {
      throw InvalidArgumentError("shape " + to_string(shape) + " has more than 2^63 elements");
    }
  }
  return numel;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace hvd
