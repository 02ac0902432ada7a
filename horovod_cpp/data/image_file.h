#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace data {

enum class ImageMode {
  kRgb,        // three channels: gray is repeated, alpha is dropped
  kGray,       // one channel, ITU-R BT.601 luma
  kUnchanged,  // as stored: 1 (gray), 2 (gray, alpha), 3 (RGB) or 4 (RGBA)
};

// Decodes a JPEG or PNG file, told apart by its first bytes, to uint8 [channels, height, width].
// 16-bit PNG samples are scaled to 8 bits, palettes expanded; CMYK JPEG becomes RGB. Orientation
// and color profiles are ignored. Throws InvalidArgumentError naming the file and what is wrong
// with it: not a file, another format, truncated or corrupt data, more than 2^28 pixels.
Tensor read_image(const std::string& path, ImageMode mode = ImageMode::kRgb);

// The same of a file in memory; errors call it `name`.
Tensor decode_image(std::span<const std::uint8_t> bytes, const std::string& name,
                    ImageMode mode = ImageMode::kRgb);

}  // namespace data
}  // namespace hvd
