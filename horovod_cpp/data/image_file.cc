#include "horovod_cpp/data/image_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <zlib.h>

namespace hvd::data {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;  // bytes; zlib takes at most an int's worth

// A file that is not there is for who opens it.
void check_regular(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!exists(status) || is_regular_file(status)) return;
  throw InvalidArgumentError(path, ": is not a regular file");
}

}  // namespace

bool may_exist(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

ByteSource::ByteSource(std::string path) : path_(std::move(path)), file_(nullptr) {
  check_regular(path_);
  errno = 0;
  file_ = gzopen(path_.c_str(), "rb");
  if (file_ == nullptr) fail("cannot be opened: ", std::strerror(errno));
}

ByteSource::~ByteSource() {
  gzclose_r(file_);
}

std::vector<std::uint8_t> ByteSource::read(std::size_t limit) {
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < limit) {
    const std::size_t at = bytes.size();
    const std::size_t wanted = std::min(kChunk, limit - at);
    bytes.resize(at + wanted);
    const int got = gzread(file_, bytes.data() + at, static_cast<unsigned>(wanted));
    bytes.resize(at + static_cast<std::size_t>(std::max(got, 0)));
    int error = Z_OK;
    const char* text = gzerror(file_, &error);
    // A gzip file that stops early reads as a short one; zlib tells by Z_BUF_ERROR.
    if (error == Z_BUF_ERROR) fail("the gzip data is truncated");
    if (got < 0) fail("cannot be read: ", text);
    if (static_cast<std::size_t>(got) < wanted) break;
  }
  return bytes;
}

void ByteSource::expect_end() {
  if (!read(1).empty()) fail("has bytes left over after the last element its header promises");
}

namespace {

constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;
constexpr std::streamoff kMaxFileBytes = 8 * kMaxPixels;  // 16 bits in four channels
constexpr std::array<std::uint8_t, 3> kJpegMagic = {0xFF, 0xD8, 0xFF};
constexpr std::array<std::uint8_t, 8> kPngMagic = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

template <std::size_t N>
bool begins_with(std::span<const std::uint8_t> bytes, const std::array<std::uint8_t, N>& magic) {
  return bytes.size() >= N && std::equal(magic.begin(), magic.end(), bytes.begin());
}

void copy_channel(const std::uint8_t* from, std::int64_t channels, std::int64_t pixels,
                  std::uint8_t* to) {
  for (std::int64_t i = 0; i < pixels; ++i) to[i] = from[i * channels];
}

// Sums to 2^16, so that white stays white.
void copy_luma(const std::uint8_t* from, std::int64_t channels, std::int64_t pixels,
               std::uint8_t* to) {
  for (std::int64_t i = 0; i < pixels; ++i, from += channels) {
    to[i] = static_cast<std::uint8_t>(
        (19595U * from[0] + 38470U * from[1] + 7471U * from[2] + 0x8000U) >> 16);
  }
}

// [height, width, channels] to the planes that `mode` asks for.
Tensor to_planes(const Tensor& pixels, ImageMode mode) {
  const std::int64_t stored = pixels.size(2);
  const std::int64_t count = pixels.size(0) * pixels.size(1);
  const bool is_gray = stored <= 2;
  std::int64_t wanted = stored;
  if (mode != ImageMode::kUnchanged) wanted = mode == ImageMode::kRgb ? 3 : 1;
  Tensor planes = Tensor::empty({wanted, pixels.size(0), pixels.size(1)}, DType::kU8);
  const auto* from = pixels.data<std::uint8_t>();
  auto* to = planes.data<std::uint8_t>();
  if (mode == ImageMode::kGray && !is_gray) {
    copy_luma(from, stored, count, to);
    return planes;
  }
  const bool repeats = mode == ImageMode::kRgb && is_gray;
  for (std::int64_t c = 0; c < wanted; ++c) {
    copy_channel(from + (repeats ? 0 : c), stored, count, to + c * count);
  }
  return planes;
}

// Into memory of this thread, which the next call uses again.
std::span<const std::uint8_t> read_file(const std::string& path) {
  thread_local std::vector<std::uint8_t> bytes;
  const auto fail = [&path](const auto&... what) {
    throw InvalidArgumentError(path, ": ", what...);
  };
  check_regular(path);
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) fail("cannot be opened: ", std::strerror(errno));
  const std::streamoff size = std::max<std::streamoff>(file.tellg(), 0);
  if (size > kMaxFileBytes) fail("has ", size, " bytes, too many for an image");
  bytes.resize(static_cast<std::size_t>(size));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) fail("cannot be read: ", std::strerror(errno));
  return bytes;
}

}  // namespace

Tensor make_pixels(std::int64_t height, std::int64_t width, std::int64_t channels,
                   const std::string& name) {
  if (height > kMaxPixels / width) {
    throw InvalidArgumentError(name, ": has ", height, " x ", width,
                               " pixels, which is more than 2^28");
  }
  return Tensor::empty({height, width, channels}, DType::kU8);
}

Tensor decode_image(std::span<const std::uint8_t> bytes, const std::string& name, ImageMode mode) {
  if (begins_with(bytes, kJpegMagic)) return to_planes(decode_jpeg(bytes, name), mode);
  if (begins_with(bytes, kPngMagic)) return to_planes(decode_png(bytes, name), mode);
  throw InvalidArgumentError(name, (bytes.empty() ? ": is empty" : ": is neither JPEG nor PNG"));
}

Tensor read_image(const std::string& path, ImageMode mode) {
  return decode_image(read_file(path), path, mode);
}

}  // namespace hvd::data
