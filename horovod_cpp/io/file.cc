#include "horovod_cpp/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/status.h"

namespace hvd {
namespace io {
namespace {

std::string last_error() {
  return std::strerror(errno);
}

// Another process or thread that writes the same path gets another name.
std::string temporary_name(const std::string& path) {
  static std::atomic<int> count{0};
  return path + ".tmp." + std::to_string(getpid()) + "." + std::to_string(count++);
}

std::filesystem::path folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

// So that the rename itself survives a crash. Some file systems cannot; the file is whole anyway.
void sync_folder_of(const std::string& path) {
  const int fd = open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

}  // namespace

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_(temporary_name(path_)) {
  std::error_code ignored;
  if (std::filesystem::is_other(path_, ignored)) {  // /dev/null would become a file
    fail("is a device, a pipe or a socket, not a file");
  }
  fd_ = open(folder_of(path_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  has_name_ = fd_ < 0;
  if (!has_name_) return;
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot create " + temporary_ + ": " + last_error());
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (has_name_) unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd_, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written: " + last_error());
    from += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (fsync(fd_) != 0) fail("cannot be flushed to the disk: " + last_error());
  if (!has_name_) {
    const std::string open_file = "/proc/self/fd/" + std::to_string(fd_);
    if (linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      fail("cannot create " + temporary_ + ": " + last_error());
    }
    has_name_ = true;
  }
  if (close(std::exchange(fd_, -1)) != 0) fail("cannot be closed: " + last_error());
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail("cannot take the place of what is there: " + last_error());
  }
  has_name_ = false;
  sync_folder_of(path_);
}

void AtomicFile::fail(const std::string& what) const {
  throw InvalidArgumentError(path_ + ": " + what);
}

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
