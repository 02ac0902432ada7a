#include "core/system/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/status.h"
#include "core/system/host.h"

namespace hvd::engine {
namespace {

constexpr int kMostLinks = 40;  // as the system

}  // namespace

std::string follow_links(const std::string& path, std::error_code& error) {
  error.clear();
  std::filesystem::path at = path;
  for (int count = 0; count <= kMostLinks; ++count) {
    struct stat status {};
    if (lstat(at.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return at;
    if (status.st_uid != geteuid() && status.st_uid != 0) {
      error = std::make_error_code(std::errc::permission_denied);
      return path;
    }
    const std::filesystem::path next = std::filesystem::read_symlink(at, error);
    if (error) return path;
    at = at.parent_path() / next;  // an absolute one replaces it
  }
  error = std::make_error_code(std::errc::too_many_symbolic_link_levels);
  return path;
}

namespace {

// O_NONBLOCK: a pipe without a reader is an error at once.
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

void open_standard_streams() {
  for (;;) {
    UniqueFd lowest(open("/dev/null", O_RDWR));
    if (!lowest) throw InternalError(std::string("cannot open /dev/null: ") + std::strerror(errno));
    if (lowest.get() > STDERR_FILENO) return;
    lowest.release();
  }
}

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

namespace {

constexpr mode_t kPermissions = 0777;
constexpr mode_t kNewFile = 0666;  // and the umask
constexpr int kAttempts = 8;       // to find a name that is not taken

std::string last_error() {
  return std::strerror(errno);
}

// Another process gets another name, whatever its number is and whichever life of it this is.
std::string draw_name(const std::string& target) {
  return target + ".tmp." + random_hex(16);
}

std::string folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

// So that the rename itself survives a crash. Some file systems cannot; the file is whole anyway.
void sync_folder_of(const std::string& path) {
  const UniqueFd folder(open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) fsync(folder.get());
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  std::error_code error;
  target_ = follow_links(path_, error);
  if (error) fail("its symbolic link is not followed: " + error.message());
  if (std::filesystem::is_other(target_, error)) {  // /dev/null would become a file
    fail("is a device, a pipe or a socket, not a file");
  }
  create();
}

void AtomicFile::create() {
  struct stat before {};
  const bool replaces = stat(target_.c_str(), &before) == 0;
  // Never more than in the end: what is private is so from the first byte on.
  const mode_t mode = replaces ? before.st_mode & kPermissions : kNewFile;
  fd_ = UniqueFd(open(folder_of(target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode));
  for (int i = 0; i < kAttempts && !fd_; ++i) {
    temporary_ = draw_name(target_);
    fd_ = UniqueFd(open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!fd_ && errno != EEXIST) break;
  }
  if (!fd_) fail("cannot create " + std::exchange(temporary_, {}) + ": " + last_error());
  // What the umask took. Some file systems have no modes.
  if (replaces) static_cast<void>(fchmod(fd_.get(), mode));
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  if (!write_all(fd_, {static_cast<const char*>(data), bytes})) {
    fail("cannot be written: " + last_error());
  }
}

void AtomicFile::give_name() {
  const std::string open_file = "/proc/self/fd/" + std::to_string(fd_.get());
  std::string name;
  for (int i = 0; i < kAttempts; ++i) {
    name = draw_name(target_);
    if (linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
      return;
    }
    if (errno != EEXIST) break;
  }
  fail("cannot create " + name + ": " + last_error());
}

void AtomicFile::commit(bool to_disk) {
  if (to_disk && fsync(fd_.get()) != 0) fail("cannot be flushed to the disk: " + last_error());
  if (temporary_.empty()) give_name();
  fd_.reset();
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    fail("cannot take the place of what is there: " + last_error());
  }
  temporary_.clear();
  if (to_disk) sync_folder_of(target_);
}

void AtomicFile::fail(const std::string& what) const {
  throw InvalidArgumentError(path_ + ": " + what);
}

}  // namespace hvd::engine
