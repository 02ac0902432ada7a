#include "horovod_cpp/data/image_ops.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/status.h"

namespace hvd {
namespace data {
namespace {

template <typename T>
void flip_rows(const Tensor& from, const Tensor& to) {
  const std::int64_t width = from.size(2);
  const std::int64_t rows = from.size(0) * from.size(1);
  const T* source = static_cast<const T*>(from.data());
  T* target = static_cast<T*>(to.data());
  for (std::int64_t row = 0; row < rows; ++row) {
    std::reverse_copy(source + row * width, source + (row + 1) * width, target + row * width);
  }
}

}  // namespace

void check_image(const Tensor& image, const char* caller) {
  if (image.defined() && image.dim() == 3 && image.numel() > 0) return;
  throw InvalidArgumentError(
      std::string(caller) + ": expected an image [channels, height, width]" + ", got " +
      (image.defined() ? std::string(name_of(image.dtype())) + " " + to_string(image.shape())
                       : "an undefined tensor"));
}

Tensor crop(const Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
            std::int64_t width, const char* caller) {
  check_image(image, caller);
  const Tensor whole = image.contiguous();
  Tensor piece = Tensor::empty({whole.size(0), height, width}, whole.dtype());
  const auto item = static_cast<std::int64_t>(size_of(whole.dtype()));
  const std::int64_t rows = whole.size(1);
  const std::int64_t stride = whole.size(2) * item;
  // What of a row of the result lies inside the image.
  const std::int64_t first = std::clamp<std::int64_t>(-left, 0, width);
  const std::int64_t last = std::clamp<std::int64_t>(whole.size(2) - left, first, width);
  const auto bytes = [item](std::int64_t count) { return static_cast<std::size_t>(count * item); };
  const auto* from = static_cast<const std::byte*>(whole.data());
  auto* to = static_cast<std::byte*>(piece.data());
  for (std::int64_t channel = 0; channel < whole.size(0); ++channel) {
    for (std::int64_t y = 0; y < height; ++y, to += width * item) {
      const std::int64_t row = top + y;
      if (row < 0 || row >= rows || first == last) {
        std::memset(to, 0, bytes(width));
        continue;
      }
      std::memset(to, 0, bytes(first));
      std::memcpy(to + first * item, from + (channel * rows + row) * stride + (left + first) * item,
                  bytes(last - first));
      std::memset(to + last * item, 0, bytes(width - last));
    }
  }
  return piece;
}

Tensor flip_horizontal(const Tensor& image, const char* caller) {
  check_image(image, caller);
  const Tensor from = image.contiguous();
  Tensor to = Tensor::empty(from.shape(), from.dtype());
  switch (size_of(from.dtype())) {
    case 1:
      flip_rows<std::uint8_t>(from, to);
      break;
    case 2:
      flip_rows<std::uint16_t>(from, to);
      break;
    case 4:
      flip_rows<std::uint32_t>(from, to);
      break;
    case 8:
      flip_rows<std::uint64_t>(from, to);
      break;
    default:
      throw InvalidArgumentError(std::string(caller) + ": an image of " +
                                 std::string(name_of(from.dtype())));
  }
  return to;
}

}  // namespace data
}  // namespace hvd
