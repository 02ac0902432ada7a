#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace data {

// Decode a whole file to uint8 [height, width, channels], channels as stored. Throw
// InvalidArgumentError("<name>: ...") when there is anything wrong with it.
Tensor decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name);
Tensor decode_png(std::span<const std::uint8_t> bytes, const std::string& name);

// Memory for the pixels. Throws InvalidArgumentError if a file promises more than 2^28 of them.
Tensor make_pixels(std::int64_t height, std::int64_t width, std::int64_t channels,
                   const std::string& name);

}  // namespace data
}  // namespace hvd
