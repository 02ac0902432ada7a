#include "horovod_cpp/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/status.h"

namespace hvd {
namespace io {
namespace {

std::string last_error() {
  return std::strerror(errno);
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // Non-blocking: opening a pipe must not wait for a writer.
  fd_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd_ < 0) fail("cannot be opened: " + last_error());
  struct stat status {};
  if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd_);
    fail("is not a regular file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  close(fd_);
}

void InputFile::read(void* to, std::size_t bytes) {
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::read(fd_, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot be read at byte " + std::to_string(offset_) + ": " + last_error());
    if (got == 0) fail("ended at byte " + std::to_string(offset_) + " while it was being read");
    at += got;
    offset_ += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

void InputFile::fail(const std::string& what) const {
  throw InvalidArgumentError(path_ + ": " + what);
}

}  // namespace io
}  // namespace hvd
