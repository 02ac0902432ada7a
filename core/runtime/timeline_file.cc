#include "core/runtime/timeline_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/base/status.h"

namespace hvd {
namespace {

constexpr std::string_view kTrailer = "\n]\n";

// Bytes in one system call. A signal may interrupt one at a page's edge only, so that small ones
// leave next to no time for that.
constexpr std::size_t kPiece = 4096;

bool write_all(int fd, std::string_view text, std::int64_t offset) {
  while (!text.empty()) {
    const ssize_t written = pwrite(fd, text.data(), text.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  return true;
}

[[noreturn]] void refuse(const std::string& path) {
  throw InvalidArgumentError("cannot write the timeline '" + path + "': " + std::strerror(errno));
}

}  // namespace

TimelineFile::TimelineFile(const std::string& path)
    // Not waiting for a reader, should it be a pipe.
    : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644)) {
  if (fd_ < 0) refuse(path);
  if (!write_all(fd_, "[" + std::string(kTrailer), 0)) {
    const int why = errno;
    close(fd_);
    errno = why;
    refuse(path);
  }
  end_ = 1;
}

TimelineFile::~TimelineFile() {
  close(fd_);
}

bool TimelineFile::append(std::span<const std::string> records) {
  while (!records.empty()) {
    std::size_t count = 1;
    std::size_t bytes = records[0].size();
    while (count < records.size() && bytes + records[count].size() <= kPiece) {
      bytes += records[count++].size();
    }
    if (!append_piece(records.first(count))) return false;
    records = records.subspan(count);
  }
  return true;
}

std::size_t TimelineFile::size_with(std::span<const std::string> records) const {
  constexpr std::size_t kSeparator = 2;
  std::size_t size = static_cast<std::size_t>(end_) + kTrailer.size();
  for (const std::string& record : records) size += record.size() + kSeparator;
  return size;
}

bool TimelineFile::append_piece(std::span<const std::string> records) {
  std::string text;
  for (const std::string& record : records) {
    text += end_ == 1 && text.empty() ? "\n" : ",\n";
    text += record;
  }
  text += kTrailer;
  if (write_all(fd_, text, end_)) {
    end_ += static_cast<std::int64_t>(text.size() - kTrailer.size());
    return true;
  }
  const int why = errno;
  // The array as it was; if even that fails there is nothing left to try.
  if (ftruncate(fd_, end_) == 0) write_all(fd_, kTrailer, end_);
  errno = why;
  return false;
}

}  // namespace hvd
