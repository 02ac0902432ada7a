#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/tensor/tensor.h"

struct gzFile_s;  // zlib's

namespace hvd::data {

// Whether there is such a file, or one whose state is unknown: reading it says why.
bool may_exist(const std::string& path);

// Reads a file from its beginning, decompressing it if it is in gzip format. Everything that goes
// wrong throws InvalidArgumentError naming the file.
class ByteSource {
 public:
  explicit ByteSource(std::string path);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Up to `limit` bytes, fewer only at the end of the file. Memory grows with what is there, not
  // with `limit`, so a header that lies costs nothing.
  std::vector<std::uint8_t> read(std::size_t limit);
  // Throws unless the end has been reached.
  void expect_end();
  // Throws InvalidArgumentError("<path>: <what>").
  [[noreturn]] void fail(const auto&... what) const {
    throw InvalidArgumentError(path_, ": ", what...);
  }

 private:
  std::string path_;
  gzFile_s* file_;
};

// Decode a whole file to uint8 [height, width, channels], channels as stored. Throw
// InvalidArgumentError("<name>: ...") when there is anything wrong with it.
Tensor decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name);
Tensor decode_png(std::span<const std::uint8_t> bytes, const std::string& name);

// Memory for the pixels. Throws InvalidArgumentError if a file promises more than 2^28 of them.
Tensor make_pixels(std::int64_t height, std::int64_t width, std::int64_t channels,
                   const std::string& name);

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

}  // namespace hvd::data
