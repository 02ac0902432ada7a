#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct gzFile_s;  // zlib's

namespace hvd {
namespace data {

// Whether there is such a file, or one that cannot be asked about: reading it says why.
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
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string path_;
  gzFile_s* file_;
};

}  // namespace data
}  // namespace hvd
