#include "ops/shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>

#include "core/base/log.h"
#include "core/base/status.h"

namespace hvd {
namespace {

constexpr const char* kFolder = "/dev/shm/";
constexpr int kAttempts = 16;  // names tried before a collision counts as a failure

std::string fresh_path() {
  static std::atomic<unsigned> count{0};
  return kFolder + ("hvd-" + std::to_string(getpid()) + "-" + std::to_string(count++) + "-" +
                    std::to_string(std::random_device{}()));
}

// 0 or an errno. posix_fallocate and not ftruncate alone: a full /dev/shm must fail here and not
// by SIGBUS at the first touch.
int reserve(int fd, std::size_t bytes) {
  return posix_fallocate(fd, 0, static_cast<off_t>(bytes));
}

std::string describe(int error) {
  return std::strerror(error);
}

// An open file of a fresh name, or -errno.
int create_named(std::string& path) {
  for (int i = 0; i < kAttempts; ++i) {
    path = fresh_path();
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
    if (errno != EEXIST) break;
  }
  return -errno;
}

}  // namespace

std::shared_ptr<SharedMemory> SharedMemory::map(int fd, std::size_t bytes, std::string path) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    throw UnsupportedError("cannot map " + std::to_string(bytes) + " bytes of shared memory (" +
                           path + "): " + describe(errno));
  }
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->data_ = static_cast<std::byte*>(data);
  memory->bytes_ = bytes;
  memory->path_ = std::move(path);
  return memory;
}

std::shared_ptr<SharedMemory> SharedMemory::create(std::size_t bytes) {
  std::string path;
  const int fd = create_named(path);
  const int error = fd < 0 ? -fd : reserve(fd, bytes);
  if (error == 0) {
    std::shared_ptr<SharedMemory> memory;
    try {
      memory = map(fd, bytes, path);
    } catch (...) {
      ::unlink(path.c_str());
      ::close(fd);
      throw;
    }
    ::close(fd);
    memory->has_name_ = true;
    return memory;
  }
  if (fd >= 0) {
    ::unlink(path.c_str());
    ::close(fd);
  }
  const std::string wanted = std::to_string(bytes) + " bytes";
  const int memfd = memfd_create("hvd", MFD_CLOEXEC);
  const int memfd_error = memfd < 0 ? errno : reserve(memfd, bytes);
  if (memfd_error != 0) {
    if (memfd >= 0) ::close(memfd);
    throw UnsupportedError("no shared memory for the ranks of this host: " + wanted +
                           " failed in " + kFolder + " (" + describe(error) + ") and in a memfd (" +
                           describe(memfd_error) + ")");
  }
  log(LogLevel::kWarning, wanted + " failed in " + kFolder + " (" + describe(error) +
                              "); using a memfd instead. In a container, --shm-size enlarges it");
  auto memory =
      map(memfd, bytes, "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(memfd));
  memory->memfd_ = memfd;
  return memory;
}

std::shared_ptr<SharedMemory> SharedMemory::open(const std::string& path, std::size_t bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    throw PeerLostError("cannot open the shared memory " + path + ": " + describe(errno) +
                        "; ranks of one host must share its /dev/shm and its process numbers (set "
                        "HOROVOD_HOSTNAME to different names for containers that do not)");
  }
  struct stat status {};
  if (fstat(fd, &status) != 0 || static_cast<std::size_t>(status.st_size) < bytes) {
    ::close(fd);
    throw PeerLostError("the shared memory " + path + " is smaller than " + std::to_string(bytes) +
                        " bytes");
  }
  try {
    auto memory = map(fd, bytes, path);
    ::close(fd);
    return memory;
  } catch (...) {
    ::close(fd);
    throw;
  }
}

void SharedMemory::remove_name() noexcept {
  if (has_name_) ::unlink(path_.c_str());
  has_name_ = false;
  if (memfd_ >= 0) ::close(memfd_);
  memfd_ = -1;
}

SharedMemory::~SharedMemory() {
  remove_name();
  munmap(data_, bytes_);
}

}  // namespace hvd
