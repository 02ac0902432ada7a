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
int reserve_pages(int fd, std::size_t offset, std::size_t bytes) {
  return posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
}

// Makes it `bytes` long, of which the first `reserved` have pages. 0 or an errno.
int size_up(int fd, std::size_t bytes, std::size_t reserved) {
  const int error = reserve_pages(fd, 0, reserved);
  if (error != 0 || reserved == bytes) return error;
  return ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

std::string describe(int error) {
  return std::strerror(error);
}

// An open file of a fresh name; none and an errno.
UniqueFd create_named(std::string& path, int& error) {
  for (int i = 0; i < kAttempts; ++i) {
    path = fresh_path();
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    error = fd ? 0 : errno;
    if (error != EEXIST) return fd;
  }
  return {};
}

}  // namespace

std::shared_ptr<SharedMemory> SharedMemory::map(UniqueFd fd, std::size_t bytes, std::string path) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    throw UnsupportedError("cannot map " + std::to_string(bytes) + " bytes of shared memory (" +
                           path + "): " + describe(errno));
  }
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->fd_ = std::move(fd);
  memory->data_ = static_cast<std::byte*>(data);
  memory->bytes_ = bytes;
  memory->path_ = std::move(path);
  return memory;
}

std::shared_ptr<SharedMemory> SharedMemory::create(std::size_t bytes, std::size_t reserved) {
  std::string path;
  int error = 0;
  UniqueFd fd = create_named(path, error);
  if (fd) error = size_up(fd.get(), bytes, reserved);
  if (error == 0) {
    try {
      auto memory = map(std::move(fd), bytes, path);
      memory->has_name_ = true;
      return memory;
    } catch (...) {
      ::unlink(path.c_str());
      throw;
    }
  }
  if (fd) ::unlink(path.c_str());
  const std::string wanted = std::to_string(reserved) + " bytes";
  UniqueFd memfd(memfd_create("hvd", MFD_CLOEXEC));
  const int memfd_error = memfd ? size_up(memfd.get(), bytes, reserved) : errno;
  if (memfd_error != 0) {
    throw UnsupportedError("no shared memory for the ranks of this host: " + wanted +
                           " failed in " + kFolder + " (" + describe(error) + ") and in a memfd (" +
                           describe(memfd_error) + ")");
  }
  log(LogLevel::kWarning, wanted + " failed in " + kFolder + " (" + describe(error) +
                              "); using a memfd instead. In a container, --shm-size enlarges it");
  path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(memfd.get());
  return map(std::move(memfd), bytes, path);
}

std::shared_ptr<SharedMemory> SharedMemory::open(const std::string& path, std::size_t bytes) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) {
    throw PeerLostError("cannot open the shared memory " + path + ": " + describe(errno) +
                        "; ranks of one host must share its /dev/shm and its process numbers (set "
                        "HOROVOD_HOSTNAME to different names for containers that do not)");
  }
  struct stat status {};
  if (fstat(fd.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) < bytes) {
    throw PeerLostError("the shared memory " + path + " is smaller than " + std::to_string(bytes) +
                        " bytes");
  }
  return map(std::move(fd), bytes, path);
}

void SharedMemory::reserve(std::size_t offset, std::size_t bytes) {
  const int error = reserve_pages(fd_.get(), offset, bytes);
  if (error == 0) return;
  throw UnsupportedError("no shared memory for " + std::to_string(bytes) + " bytes more (" + path_ +
                         "): " + describe(error) + ". In a container, --shm-size enlarges it");
}

void SharedMemory::remove_name() noexcept {
  if (has_name_) ::unlink(path_.c_str());
  has_name_ = false;
}

SharedMemory::~SharedMemory() {
  remove_name();
  munmap(data_, bytes_);
}

}  // namespace hvd
