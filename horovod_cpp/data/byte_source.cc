#include "horovod_cpp/data/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/status.h"

namespace hvd {
namespace data {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;  // bytes; zlib takes at most an int's worth

}  // namespace

bool may_exist(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

ByteSource::ByteSource(std::string path) : path_(std::move(path)), file_(nullptr) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path_, ignored);
  if (exists(status) && !is_regular_file(status)) fail("is not a regular file");
  errno = 0;
  file_ = gzopen(path_.c_str(), "rb");
  if (file_ == nullptr) fail(std::string("cannot be opened: ") + std::strerror(errno));
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
    if (got < 0) fail(std::string("cannot be read: ") + text);
    if (static_cast<std::size_t>(got) < wanted) break;
  }
  return bytes;
}

void ByteSource::expect_end() {
  if (!read(1).empty()) fail("has bytes left over after the last element its header promises");
}

void ByteSource::fail(const std::string& what) const {
  throw InvalidArgumentError(path_ + ": " + what);
}

}  // namespace data
}  // namespace hvd
