#include "ops/shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/status.h"

namespace hvd::engine {
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

namespace {

constexpr std::size_t kPartAlignment = std::size_t{2} << 20;  // that of huge pages

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

void free_pages(const UniqueFd& file, std::size_t offset, std::size_t bytes) noexcept {
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (fallocate(file.get(), kHole, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0 &&
         errno == EINTR) {
  }
}

}  // namespace

ArenaPart::ArenaPart(std::shared_ptr<const UniqueFd> file, std::size_t offset, std::size_t bytes,
                     bool owned)
    : file_(std::move(file)), offset_(offset), bytes_(bytes), owned_(owned) {
  void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_->get(),
                    static_cast<off_t>(offset_));
  if (data == MAP_FAILED) {
    const int error = errno;
    if (owned_) free_pages(*file_, offset_, bytes_);
    throw UnsupportedError("a mapping of " + std::to_string(bytes_) +
                           " bytes of shared memory failed: " + std::strerror(error));
  }
  data_ = static_cast<std::byte*>(data);
}

ArenaPart::~ArenaPart() {
  munmap(data_, bytes_);
  if (owned_) free_pages(*file_, offset_, bytes_);
}

ArenaFiles::ArenaFiles(std::vector<UniqueFd> files, int rank) : rank_(rank) {
  for (UniqueFd& file : files) {
    files_.push_back(std::make_shared<const UniqueFd>(std::move(file)));
  }
}

std::shared_ptr<ArenaPart> ArenaFiles::make(std::size_t bytes) {
  const auto& file = files_[static_cast<std::size_t>(rank_)];
  const std::size_t offset = next_;
  if (const int error = reserve_pages(*file, offset, bytes)) {
    free_pages(*file, offset, bytes);  // what it got before it failed
    throw UnsupportedError("no shared memory for " + std::to_string(bytes) +
                           " bytes: " + std::strerror(error));
  }
  next_ += whole_pages(bytes);
  return std::make_shared<ArenaPart>(file, offset, bytes, true);
}

std::shared_ptr<ArenaPart> ArenaFiles::open(int rank, std::size_t offset, std::size_t bytes) const {
  const auto& file = files_[static_cast<std::size_t>(rank)];
  struct stat status {};
  const bool is_there = fstat(file->get(), &status) == 0 && status.st_size >= 0 &&
                        offset <= static_cast<std::size_t>(status.st_size) &&
                        bytes <= static_cast<std::size_t>(status.st_size) - offset;
  if (!is_there) {
    throw PeerLostError("an arena of " + std::to_string(bytes) + " bytes at " +
                        std::to_string(offset) + " is not in the file of local rank " +
                        std::to_string(rank) + ", which has " + std::to_string(status.st_size));
  }
  return std::make_shared<ArenaPart>(file, offset, bytes, false);
}

}  // namespace hvd::engine
