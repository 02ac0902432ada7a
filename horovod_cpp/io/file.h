#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hvd {
namespace io {

// A regular file, read from its beginning. Every failure throws InvalidArgumentError naming path
// and reason.
class InputFile {
 public:
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size() const { return size_; }
  void read(void* to, std::size_t bytes);
  // Throws InvalidArgumentError("<path>: <what>").
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace io
}  // namespace hvd
