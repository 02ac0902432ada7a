#include "core/runtime/timeline_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/follow_links.h"
#include "core/base/status.h"

namespace hvd {
namespace {

constexpr std::string_view kHead = "[";
constexpr std::string_view kTrailer = "\n]\n";

bool write_all(int fd, std::string_view text, std::size_t offset) {
  while (!text.empty()) {
    const ssize_t written = pwrite(fd, text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::size_t>(written);
  }
  return true;
}

// A new file: the name is easily guessed, and what is there may be another user's, or a link.
UniqueFd create(const std::string& path) {
  unlink(path.c_str());  // of a process that was killed
  return UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
}

bool exchange_files(const std::string& a, const std::string& b) {
  return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InvalidArgumentError("cannot write the timeline '" + path + "': " + why);
}

// Where the bytes go: what a link points to, never in place of a device or a pipe.
std::string target_of(const std::string& path) {
  if (path.empty()) refuse(path, std::strerror(ENOENT));
  std::error_code error;
  const std::filesystem::path target = follow_links(std::filesystem::absolute(path), error);
  if (error) refuse(path, "its symbolic link is not followed: " + error.message());
  const auto type = std::filesystem::status(target, error).type();
  if (type != std::filesystem::file_type::not_found &&
      type != std::filesystem::file_type::regular) {
    refuse(path, "it is no regular file");
  }
  return target;
}

}  // namespace

TimelineFile::TimelineFile(const std::string& path)
    : path_(target_of(path)), next_path_(path_ + ".next") {
  const auto begin = [this](Copy& copy) {
    copy.fd = create(next_path_);
    return copy.fd && append_to(copy, kHead);
  };
  if (!begin(shown_) || std::rename(next_path_.c_str(), path_.c_str()) != 0) {
    const int why = errno;
    if (shown_.fd) unlink(next_path_.c_str());
    refuse(path, (shown_.fd ? "" : "'" + next_path_ + "', which is written first: ") +
                     std::strerror(why));
  }
  if (begin(next_) && exchange_files(path_, next_path_)) {
    std::swap(shown_, next_);
  } else {
    next_.fd.reset();
    unlink(next_path_.c_str());
  }
}

TimelineFile::~TimelineFile() {
  if (next_.fd) unlink(next_path_.c_str());
}

bool TimelineFile::append(std::span<const std::string> records) {
  std::string text;
  for (const std::string& record : records) {
    text += shown_.end == kHead.size() && text.empty() ? "\n" : ",\n";
    text += record;
  }
  if (!next_.fd) return append_to(shown_, text);
  if (!append_to(next_, behind_ + text) || !exchange_files(path_, next_path_)) return false;
  std::swap(shown_, next_);
  behind_ = std::move(text);
  return true;
}

std::size_t TimelineFile::size_with(std::span<const std::string> records) const {
  constexpr std::size_t kSeparator = 2;
  std::size_t size = shown_.end + kTrailer.size();
  for (const std::string& record : records) size += record.size() + kSeparator;
  return size;
}

bool TimelineFile::append_to(Copy& copy, std::string_view text) {
  const std::string bytes = std::string(text) + std::string(kTrailer);
  if (write_all(copy.fd.get(), bytes, copy.end)) {
    copy.end += text.size();
    return true;
  }
  const int why = errno;
  // The array as it was; if even that fails there is nothing left to try.
  if (ftruncate(copy.fd.get(), static_cast<off_t>(copy.end)) == 0) {
    write_all(copy.fd.get(), kTrailer, copy.end);
  }
  errno = why;
  return false;
}

}  // namespace hvd
