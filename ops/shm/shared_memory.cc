#include "ops/shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/status.h"

namespace hvd {
namespace {

// What is reserved by one system call: the most, and the least after signals interrupted it.
constexpr std::size_t kLargestStep = std::size_t{64} << 20;
constexpr std::size_t kSmallestStep = std::size_t{64} << 10;

// Old headers do not know it; old kernels refuse it with EINVAL.
#ifndef MFD_NOEXEC_SEAL
constexpr unsigned MFD_NOEXEC_SEAL = 8U;
#endif

[[noreturn]] void refuse(std::size_t bytes, const std::string& what, int error) {
  throw UnsupportedError("no shared memory for the ranks of this host: " + what + " of " +
                         std::to_string(bytes) + " bytes failed: " + std::strerror(error) +
                         ". It comes from the memory of this machine or container (a memfd; the "
                         "size of /dev/shm does not matter)");
}

}  // namespace

UniqueFd make_memory_file() {
  UniqueFd file(memfd_create("hvd", MFD_CLOEXEC | MFD_NOEXEC_SEAL));
  if (!file && errno == EINVAL) file = UniqueFd(memfd_create("hvd", MFD_CLOEXEC));
  if (!file) {
    throw UnsupportedError(std::string("no shared memory for the ranks of this host: "
                                       "memfd_create: ") +
                           std::strerror(errno));
  }
  return file;
}

// posix_fallocate and not ftruncate alone: where no memory is left this must fail, and not the
// first touch by SIGBUS. Before Linux 6.11 any signal interrupts it, and what that call had
// reserved is taken back: smaller steps get through between two signals of a timer.
int reserve_pages(const UniqueFd& file, std::size_t offset, std::size_t bytes) noexcept {
  if (static_cast<off_t>(offset) < 0 || static_cast<off_t>(bytes) < 0) return EFBIG;
  std::size_t step = kLargestStep;
  while (bytes > 0) {
    const std::size_t count = std::min(step, bytes);
    const int error =
        posix_fallocate(file.get(), static_cast<off_t>(offset), static_cast<off_t>(count));
    if (error == EINTR) {
      step = std::max(kSmallestStep, std::min(step, count) / 2);
      continue;
    }
    if (error != 0) return error;
    offset += count;
    bytes -= count;
  }
  return 0;
}

std::shared_ptr<SharedMemory> SharedMemory::map(UniqueFd fd, std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) refuse(bytes, "a mapping", errno);
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->fd_ = std::move(fd);
  memory->data_ = static_cast<std::byte*>(data);
  memory->bytes_ = bytes;
  return memory;
}

std::shared_ptr<SharedMemory> SharedMemory::create(std::size_t bytes, std::size_t reserved) {
  UniqueFd file = make_memory_file();
  // First the length: what is too long fails before any page is taken.
  if (static_cast<off_t>(bytes) < 0) refuse(bytes, "a file", EFBIG);
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) refuse(bytes, "a file", errno);
  if (const int error = reserve_pages(file, 0, reserved)) refuse(reserved, "a reservation", error);
  return map(std::move(file), bytes);
}

std::shared_ptr<SharedMemory> SharedMemory::open(UniqueFd fd, std::size_t bytes) {
  struct stat status {};
  if (fstat(fd.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) < bytes) {
    throw PeerLostError("the shared memory of this host's ranks has " +
                        std::to_string(status.st_size) + " bytes, expected " +
                        std::to_string(bytes));
  }
  return map(std::move(fd), bytes);
}

void SharedMemory::reserve(std::size_t offset, std::size_t bytes) {
  if (const int error = reserve_pages(fd_, offset, bytes)) refuse(bytes, "a reservation", error);
}

SharedMemory::~SharedMemory() {
  munmap(data_, bytes_);
}

}  // namespace hvd
