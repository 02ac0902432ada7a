#include "core/base/tensor_view.h"

#include <algorithm>

#include "core/base/status.h"

namespace hvd {

std::int64_t numel_of(const Shape& shape) {
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      throw InvalidArgumentError("shape " + to_string(shape) + " has a negative extent");
    }
  }
  const auto numel = checked_bytes(shape, DType::kU8);  // of one byte each
  if (numel) return *numel;
  throw InvalidArgumentError("shape " + to_string(shape) + " has more than 2^63 elements" +
                             (std::ranges::count(shape, 0) != 0 ? " except those that are 0" : ""));
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

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
