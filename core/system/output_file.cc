#include "core/system/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/base/status.h"
#include "core/system/follow_links.h"

namespace hvd {
namespace {

// O_NONBLOCK: a pipe that nobody reads is an error at once.
constexpr int kFlags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
constexpr mode_t kNewOutput = 0666;  // and the umask

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InvalidArgumentError("cannot create '" + path + "': " + why);
}

bool is_ours(const struct stat& status) {
  return status.st_uid == geteuid() || status.st_uid == 0;
}

// /dev/null, /dev/stdout, a terminal, a pipe.
UniqueFd open_device(const std::string& path) {
  UniqueFd file(open(path.c_str(), kFlags));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) refuse(path, std::strerror(errno));
  // Nothing has been emptied: another user may have put a file there just now.
  if (S_ISREG(status.st_mode) || !is_ours(status)) {
    refuse(path, "it is a pipe or a device of another user");
  }
  fcntl(file.get(), F_SETFL, O_WRONLY);
  return file;
}

}  // namespace

UniqueFd open_output(const std::string& path) {
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) return open_device(path);
  std::error_code error;
  const std::string target = follow_links(path, error);
  if (error) refuse(path, "its symbolic link is not followed: " + error.message());
  UniqueFd file(open(target.c_str(), kFlags | O_CREAT | O_NOFOLLOW, kNewOutput));
  if (!file || fstat(file.get(), &there) != 0) refuse(path, std::strerror(errno));
  if (!S_ISREG(there.st_mode)) refuse(path, "it is not a regular file");
  if (ftruncate(file.get(), 0) != 0) refuse(path, std::strerror(errno));
  return file;
}

bool write_all(const UniqueFd& file, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace hvd
