#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hvd {
namespace io {

// Writes a file so that `path` names either what it named before or the complete new content, even
// if the process is killed. Where the file system can, the content has no name until it is
// complete, so that a killed process leaves nothing behind. Every failure throws
// InvalidArgumentError naming path and reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // leaves nothing unless commit() succeeded
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  // Flushes to the disk and moves the file to its place.
  void commit();

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  std::string temporary_;
  bool has_name_ = false;  // `temporary_` is there
  int fd_ = -1;
};

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
